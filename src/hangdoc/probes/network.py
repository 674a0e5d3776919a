"""The network as members see it: interfaces of their namespace, their files below /etc, what their variables ask for."""

from __future__ import annotations

import os
import socket
from typing import Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from ..model.network import Asked, Interface, Network, Proxy
from ..model.sample import Process, Unseen
from . import inside, proxies, rtnetlink
from .namespaces import net_ns, socket_in
from .reading import open_regular, reason
from .whereabouts import environment

TIMEOUT_S = 1.0
ETC_LIMIT = 1 << 18  # bytes of one file below /etc
VIEWS = 16
# variable -> (what it names: interfaces, RDMA devices, either; whether names are prefixes)
ASKING = {
    "NCCL_SOCKET_IFNAME": ("interface", True),
    "GLOO_SOCKET_IFNAME": ("interface", False),
    "TP_SOCKET_IFNAME": ("interface", False),
    "NCCL_IB_HCA": ("device", True),
    "UCX_NET_DEVICES": ("either", False),
    "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME": ("interface", True),
    "MC_RDMA_DEVICE": ("device", False),
}


def read(root: str, members: Mapping[int, Process], unseen: List[Unseen], sys: str = "/sys") -> Iterator[Network]:
    """One `Network` for each pair of network and mount namespace that members are in."""
    groups: Dict[Tuple[object, object], List[int]] = {}
    for pid, one in sorted(members.items()):
        if one.state not in "ZX":
            groups.setdefault((one.net_ns or net_ns(root, pid), one.mnt_ns), []).append(pid)
    parents = {pid: one.ppid for pid, one in members.items()}
    known = {pid: one.env for pid, one in members.items() if one.env is not None}
    try:
        devices: Sequence[str] = sorted(os.listdir(f"{sys}/class/infiniband"))
    except OSError:
        devices = ()
    for (namespace, _), pids in list(groups.items())[:VIEWS]:
        envs = {pid: environment(pid, parents, known) for pid in pids}
        rows, routes = _interfaces(root, pids[0], unseen)
        files = Files(inside.of(root, pids), unseen, pids[0])
        name = _own_name(envs.values(), files)
        hosts = files.read("/etc/hosts")
        resolver = files.read("/etc/resolv.conf")
        preload = files.read("/etc/ld.so.preload")
        addresses = None if hosts is None else addresses_of(hosts, name)
        own = [name, *(one.partition("/")[0] for row in rows or () if row.up for one in row.addresses)]
        own = [one for one in own if one and not one.lower().startswith("fe80")]
        yield Network(
            pids=tuple(pids),
            net_ns=namespace if isinstance(namespace, int) else None,
            interfaces=rows,
            default_route=routes,
            name=name,
            name_addresses=addresses,
            nameservers=None if resolver is None else tuple(_words(resolver, "nameserver"))[:8],
            dns_options=tuple(_words(resolver or "", "options"))[:16],
            search=None if resolver is None else len(list(_words(resolver, "search"))),
            preload=None if preload is None else tuple(_uncommented(preload).replace(":", " ").split())[:16],
            asked=tuple(_asked(envs, rows, devices)),
            proxies=tuple(_proxies(envs, own)),
        )


class Files:
    """Files below /etc of one view. A file that is not there is empty; one that could not be read is None, and said."""

    def __init__(self, view: Optional[inside.Inside], unseen: List[Unseen], pid: int) -> None:
        self.view, self.unseen, self.pid = view, unseen, pid
        if view is None:
            unseen.append(Unseen("network", "denied", "the files of these processes may not be reached", pid))

    def read(self, path: str) -> Optional[str]:
        """Content, bounded."""
        if self.view is None:
            return None
        try:
            handle = open_regular(self.view.outer(self.view.real(path)))
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            self.unseen.append(Unseen("network", reason(error), f"{path}: {error.strerror}", self.pid))
            return None
        with os.fdopen(handle, "rb") as file:
            return file.read(ETC_LIMIT).decode("utf-8", "backslashreplace")


def _own_name(envs: Iterable[Mapping[str, str]], files: Files) -> str:
    told = next((env["HOSTNAME"] for env in envs if env.get("HOSTNAME")), "")
    return told or (files.read("/etc/hostname") or "").strip()[:253] or os.uname().nodename


def _interfaces(
    root: str, pid: int, unseen: List[Unseen]
) -> Tuple[Optional[Tuple[Interface, ...]], Optional[Tuple[str, ...]]]:
    """(interfaces, names of those with a default route) of the namespace of `pid`."""
    try:
        with socket_in(root, pid, socket.AF_NETLINK, socket.SOCK_RAW, rtnetlink.NETLINK_ROUTE) as link:
            link.settimeout(TIMEOUT_S)
            rows = rtnetlink.interfaces(link)
            routes = rtnetlink.default_routes(link)
    except OSError as error:
        unseen.append(Unseen("network", reason(error), f"interfaces: {error.strerror or error}", pid))
        return None, None
    return tuple(rows.values()), tuple(rows[one].name for one in routes if one in rows)


def _uncommented(content: str) -> str:
    return "\n".join(line.partition("#")[0] for line in content.splitlines())


def _words(content: str, keyword: str) -> Iterator[str]:
    for line in content.splitlines():
        words = line.partition("#")[0].split()
        if words and words[0] == keyword:
            yield from (one[:100] for one in words[1:])


def addresses_of(hosts: str, name: str) -> Tuple[str, ...]:
    """Addresses that a hosts file gives to a name or to its first label. Pure."""
    wanted = {name.lower(), name.lower().partition(".")[0]} - {""}
    found: Dict[str, None] = {}
    for line in hosts.splitlines():
        words = line.partition("#")[0].lower().split()
        if len(words) > 1 and wanted & set(words[1:]):
            found[words[0][:64]] = None
    return tuple(found)[:16]


def _asked(
    envs: Mapping[int, Mapping[str, str]], rows: Optional[Tuple[Interface, ...]], devices: Sequence[str]
) -> Iterator[Asked]:
    pids: Dict[Tuple[str, str], Set[int]] = {}
    for pid, env in envs.items():
        for variable in ASKING:
            if env.get(variable):
                pids.setdefault((variable, env[variable]), set()).add(pid)
    for (variable, value), who in pids.items():
        what, prefixes = ASKING[variable]
        if rows is None and what != "device":
            continue
        there = [
            *(devices if what != "interface" else ()),
            *((one.name for one in rows or ()) if what != "device" else ()),
        ]
        found, missing = fitting(value, there, prefixes=prefixes)
        yield Asked(variable, value[:256], tuple(sorted(who)), tuple(found), tuple(missing))


def fitting(value: str, names: Sequence[str], *, prefixes: bool) -> Tuple[List[str], List[str]]:
    """(names that a variable lets be used, words in it that fit none). Pure.

    With `prefixes` as NCCL reads it: `^` before the list leaves out, `=` asks for whole names; `:PORT` is passed over.
    """
    excluding = prefixes and value.startswith("^")
    value = value[1:] if excluding else value
    whole = not prefixes or value.startswith("=")
    value = value[1:] if prefixes and value.startswith("=") else value
    words = [one.strip().partition(":")[0] for one in value.split(",") if one.strip()][:64]
    fits = {word: [one for one in names if one == word or (not whole and one.startswith(word))] for word in words}
    hit = {one for some in fits.values() for one in some}
    if excluding:
        return [one for one in names if one not in hit], []
    if words == ["all"]:
        return list(names), []
    return [one for one in names if one in hit], [word for word in words if not fits[word]]


def _proxies(envs: Mapping[int, Mapping[str, str]], own: List[str]) -> Iterator[Proxy]:
    groups: Dict[Tuple[Tuple[str, str], ...], List[int]] = {}
    for pid, env in envs.items():
        found = proxies.variables(env)
        if found:
            groups.setdefault(tuple(sorted(found.items())), []).append(pid)
    for pairs, pids in groups.items():
        yield Proxy(tuple(sorted(pids)), dict(pairs), proxies.uncovered(dict(pairs), own)[:32])
