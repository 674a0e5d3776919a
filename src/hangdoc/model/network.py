"""The network as members see it: interfaces, names, proxies, and whether what the variables ask for is there.

Part of a sample (probe `network`, asked once a look). `None` always means "not seen". Standard library only and
Python 3.8.
"""

from dataclasses import field
from typing import Dict, Optional, Tuple

from .frozen import dataclass


@dataclass(frozen=True)
class Interface:
    """One interface of a network namespace (rtnetlink)."""

    name: str
    addresses: Tuple[str, ...] = ()  # "10.0.0.5/24", "fe80::1/64"
    up: bool = False  # IFF_UP: it was switched on
    running: bool = False  # IFF_RUNNING: it has a carrier
    loopback: bool = False
    mtu: Optional[int] = None
    kind: str = ""  # of a virtual one: bridge veth bond vlan tun wireguard ipvlan …; "infiniband": IP over InfiniBand


@dataclass(frozen=True)
class Asked:
    """An interface or device that a variable asks for, held against what there is.

    NCCL takes names as prefixes unless `=` stands before them, and leaves out those behind `^`; Gloo and TensorPipe take
    them as they are.
    """

    variable: str  # one of `probes.network.ASKING`: NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, …
    value: str
    pids: Tuple[int, ...]
    # Interfaces or RDMA devices that it lets be used; empty: none, which is an error or a hang.
    found: Tuple[str, ...] = ()
    missing: Tuple[str, ...] = ()  # names in it that fit nothing


@dataclass(frozen=True)
class Proxy:
    """Proxies that members are told to use."""

    pids: Tuple[int, ...]
    variables: Dict[str, str] = field(default_factory=dict)  # as set, passwords masked; no_proxy among them
    # Of this machine's own names and addresses, those that no_proxy does not except. HTTP to them goes to the proxy where
    # http_proxy or all_proxy is set. Read as Python's libraries read it: suffixes of names, and address ranges.
    uncovered: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Network:
    """One view: members that share network and mount namespace."""

    pids: Tuple[int, ...]
    net_ns: Optional[int] = None
    interfaces: Optional[Tuple[Interface, ...]] = None
    default_route: Optional[Tuple[str, ...]] = None  # interfaces of default routes, IPv4 and IPv6; empty: there is none
    name: str = ""  # own host name as the members are told it (HOSTNAME, /etc/hostname), else ours
    name_addresses: Optional[Tuple[str, ...]] = None  # of that name in their /etc/hosts; empty: not there, DNS is asked
    nameservers: Optional[Tuple[str, ...]] = None  # of their /etc/resolv.conf
    dns_options: Tuple[str, ...] = ()  # "ndots:5", "timeout:1", …
    search: Optional[int] = None  # how many search domains
    preload: Optional[Tuple[str, ...]] = None  # libraries of their /etc/ld.so.preload
    asked: Tuple[Asked, ...] = ()
    proxies: Tuple[Proxy, ...] = ()
