"""Real hosts for tests: an sshd each, in network, pid, uts, ipc and mount namespaces of our own making.

They hang on a bridge inside one more network namespace, so nothing of them is seen on this machine, and several tests
may have their own at a time. `ssh` from the folder `bin` is the user's: a wrapper that enters that network and reads a
configuration of ours. Everything ends with the processes that hold the namespaces.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

NETWORK = "10.77.0"
HUB = f"{NETWORK}.1"  # the user's own address
TOOLS = ("sshd", "ssh", "ssh-keygen", "ip", "unshare", "nsenter", "mount")
HOST = """
set -e
hostname "$1"
mount --make-rprivate /
mount -t tmpfs none /dev/shm
mount -t tmpfs none /run
mkdir -m 755 /run/sshd
echo made
read -r go
exec "$2" -D -e -f "$3"
"""
HUB_SCRIPT = """
set -e
mount --make-rprivate /
ip link set lo up
ip link add br0 type bridge
ip addr add {hub}/24 dev br0
ip link set br0 up
echo made
exec sleep infinity
"""


@dataclass(frozen=True)
class Host:
    """One host. `pid` is its first process (the sshd) as seen from outside; `enter` are the words before a command in it."""

    name: str
    address: str
    pid: int
    enter: tuple[str, ...]


@dataclass(frozen=True)
class Site:
    """Some hosts, and how to get there."""

    hosts: tuple[Host, ...]
    folder: Path  # keys, configuration; files of the test may be put here, the hosts see them
    bin: Path  # first on PATH, it makes `ssh` the user's ssh of these hosts
    config: Path  # the user's ssh configuration: may be appended to
    hub: tuple[str, ...]  # the words before a command in the user's network

    def environ(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment in which `ssh` reaches the hosts."""
        return {**os.environ, "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}", **(more or {})}

    def run(self, host: Host, *words: str | Path) -> str:
        """Output of a command in a host, not over ssh. Raises where it fails."""
        done = subprocess.run([*host.enter, *words], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        return done.stdout

    def unplug(self, host: Host) -> None:
        """Cut a host from the network without a word, as a dead one is."""
        subprocess.run([*host.enter, "ip", "link", "set", "eth0", "down"], check=True, timeout=20)


def missing() -> str:
    """Why no hosts can be made here; empty where they can."""
    if os.geteuid() != 0:
        return "needs root to make namespaces"
    lacking = [tool for tool in TOOLS if _which(tool) is None]
    if lacking:
        return f"not installed: {', '.join(lacking)}"
    tried = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"],
        capture_output=True,
        timeout=20,
        check=False,
    )
    return "" if tried.returncode == 0 else f"no network namespaces here: {tried.stderr.decode().strip()}"


def _which(tool: str) -> str | None:
    return shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/sbin")


@contextlib.contextmanager
def site(
    folder: Path, count: int, *, names: Sequence[str] = (), sshd: Mapping[int, str] | None = None
) -> Iterator[Site]:
    """Hosts `gpu01` and on (or `names`); `sshd` has further lines of an sshd_config by the number of the host, from 0.

    Skips the test where they cannot be made.
    """
    why = missing()
    if why:
        pytest.skip(why)
    folder.mkdir(parents=True, exist_ok=True)
    for key in ("user", "host", "stranger"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", folder / key]
        subprocess.run(command, check=True, timeout=20)
    called = list(names) or [f"gpu{number:02}" for number in range(1, count + 1)]
    addresses = [f"{NETWORK}.{number}" for number in range(11, 11 + count)]
    key = (folder / "host.pub").read_text().strip()
    known = [f"{name},{address} {key}\n" for name, address in zip(called, addresses, strict=True)]
    (folder / "known_hosts").write_text("".join(known))
    wanted = {called[number]: re.search(r"^Port (\d+)", lines, re.MULTILINE) for number, lines in (sshd or {}).items()}
    ports = {name: found.group(1) for name, found in wanted.items() if found is not None}
    hosts_file = "".join(f"{address} {name}\n" for name, address in zip(called, addresses, strict=True))
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n{hosts_file}")
    with contextlib.ExitStack() as ends:
        hub = _started(ends, ["unshare", "--net", "--mount", "sh", "-c", HUB_SCRIPT.format(hub=HUB)])
        enter_hub = ("nsenter", f"--net=/proc/{hub.pid}/ns/net", "--")
        made = []
        for number, (name, address) in enumerate(zip(called, addresses, strict=True)):
            config = _sshd_config(folder, name, (sshd or {}).get(number, ""))
            made.append(_host(ends, folder, enter_hub, (number, name, address), config))
        config = folder / "ssh_config"
        config.write_text(_ssh_config(folder, called, addresses))
        wrapper = folder / "bin" / "ssh"
        wrapper.parent.mkdir(exist_ok=True)
        wrapper.write_text(f'#!/bin/sh\nexec {" ".join(enter_hub)} {_which("ssh")} -F {config} "$@"\n')
        wrapper.chmod(0o755)
        for one in made:
            _wait_for_sshd(enter_hub, one.address, ports.get(one.name, "22"))
        yield Site(tuple(made), folder, wrapper.parent, config, enter_hub)


def _sshd_config(folder: Path, name: str, more: str) -> Path:
    config = folder / f"sshd_config.{name}"
    where = "" if "Port " in more else "Port 22\n"
    config.write_text(
        f"{more}\n{where}ListenAddress 0.0.0.0\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        "StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        f"PidFile none\nSetEnv PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin\nUseDNS no\nPrintMotd no\nMaxStartups 100\n"
    )
    return config


def _ssh_config(folder: Path, names: Sequence[str], addresses: Sequence[str]) -> str:
    """The first value counts in ssh's configuration, so the common part comes last."""
    rows = [f"Host {name}\n  HostName {address}\n" for name, address in zip(names, addresses, strict=True)]
    common = f"  IdentityFile {folder}/user\n  IdentitiesOnly yes\n  UserKnownHostsFile {folder}/known_hosts\n"
    return "".join(rows) + f"Host *\n{common}  GlobalKnownHostsFile /dev/null\n  User root\n  LogLevel INFO\n"


def _host(
    ends: contextlib.ExitStack, folder: Path, enter_hub: Sequence[str], about: tuple[int, str, str], config: Path
) -> Host:
    number, name, address = about
    spaces = ["unshare", "--net", "--pid", "--uts", "--ipc", "--mount", "--fork", "--mount-proc", "--kill-child"]
    log = ends.enter_context((folder / f"sshd.{name}.log").open("wb"))
    command = [*spaces, "sh", "-c", HOST, "host", name, _which("sshd") or "sshd", str(config)]
    outer = _started(ends, command, log.fileno())
    pid = int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[0])
    enter = ("nsenter", f"--target={pid}", "--net", "--pid", "--uts", "--ipc", "--mount", "--")
    steps: list[Sequence[str]] = [
        [*enter_hub, "ip", "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", str(pid)],
        [*enter_hub, "ip", "link", "set", f"v{number}", "master", "br0", "up"],
        [*enter, "ip", "link", "set", "lo", "up"],
        [*enter, "ip", "addr", "add", f"{address}/24", "dev", "eth0"],
        [*enter, "ip", "link", "set", "eth0", "up"],
        [*enter, "ip", "route", "add", "default", "via", HUB],
        [*enter, "mount", "--bind", str(folder / "hosts"), "/etc/hosts"],
    ]
    for step in steps:
        subprocess.run(step, check=True, timeout=20)
    assert outer.stdin is not None
    outer.stdin.write(b"go\n")
    outer.stdin.flush()
    return Host(name, address, pid, enter)


def _started(ends: contextlib.ExitStack, command: list[str], errors: int | None = None) -> subprocess.Popen[bytes]:
    """A process that says "made", killed at the end; with a host's first process all of the host ends."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
    )
    ends.callback(_end, process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"made\n", f"{command[0]} failed"
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for word in children:  # the first process of a pid namespace: the kernel ends all others, and unshare reaps it
        os.kill(int(word), signal.SIGKILL)
    if not children:
        process.kill()
    process.wait(20)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _wait_for_sshd(enter_hub: Sequence[str], address: str, port: str) -> None:
    script = f"exec 3<>/dev/tcp/{address}/{port}"
    deadline = time.monotonic() + 20
    while subprocess.run([*enter_hub, "bash", "-c", script], capture_output=True, timeout=20, check=False).returncode:
        assert time.monotonic() < deadline, f"no sshd at {address}"
        time.sleep(0.05)
