"""Facts of what a host is made of, and of the network as the members see it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..model.machine import Gpu, Machine
from ..model.sample import Network
from .of_host import OfHost
from .of_member import OfMember

_TEXTS = 128


def texts(values: Iterable[str]) -> tuple[str, ...]:
    """Each once, in order, bounded, without empty ones."""
    return tuple(sorted({one for one in values if one}))[:_TEXTS]


def _machine(of: Callable[[Machine], Any]) -> Callable[[OfHost, str], Any]:
    """A field of the machine; None in it means that it was not seen."""

    def get(c: OfHost, _: str) -> Any:
        machine = c.machine
        found = of(machine) if machine is not None else None
        return found if found not in (None, "") else c.missing("machine")

    return get


def _named(of: Callable[[Machine], Mapping[str, str] | None]) -> Callable[[OfHost, str], Any]:
    def get(c: OfHost, name: str) -> Any:
        machine = c.machine
        found = of(machine) if machine is not None else None
        return found.get(name) if found is not None else c.missing("machine")

    return get


def _gpus(of: Callable[[Gpu], str]) -> Callable[[OfHost, str], Any]:
    return _machine(lambda one: None if one.gpus is None else texts(of(gpu) for gpu in one.gpus))


def _acs(c: OfHost, _: str) -> Any:
    """GPUs above which a bridge sends peer traffic up; unknown where a bridge could not be read and no other does it."""
    machine = c.machine
    gpus = machine.gpus if machine is not None else None
    if gpus is None:
        return c.missing("machine")
    found = texts(one.bus for one in gpus if one.acs_redirect)
    unread = any(one.acs_redirect is None for one in gpus)
    return c.missing("machine", reason="only root may read it") if unread and not found else found


def _nvidia(c: OfHost, _: str) -> Any:
    """None where there is no such driver: then no module of it is loaded either."""
    machine = c.machine
    if machine is None or (not machine.nvidia_driver and (machine.modules is None or "nvidia" in machine.modules)):
        return c.missing("machine")
    return machine.nvidia_driver or None


def _network(of: Callable[[Network], Iterable[str] | None]) -> Callable[[OfHost, str], Any]:
    """Texts of all views that members have; missing when one of the views does not have them."""

    def get(c: OfHost, _: str) -> Any:
        parts = [of(one) for one in c.networks]
        known = [one for part in parts if part is not None for one in part]
        return texts(known) if parts and None not in parts else c.missing("network")

    return get


def _search(c: OfHost, _: str) -> Any:
    found = [one.search for one in c.networks if one.search is not None]
    return max(found) if found else c.missing("network")


def _asked(of: str) -> Callable[[OfHost, str], Any]:
    """What a variable asks for: names that fit something, or nothing. None where no member has the variable."""

    def get(c: OfHost, name: str) -> Any:
        networks = c.networks
        if not networks or any(one.interfaces is None for one in networks):
            return c.missing("network")
        asked = [one for network in networks for one in network.asked if one.variable == name]
        return texts(each for one in asked for each in getattr(one, of)) if asked else None

    return get


def _count(cpus: str | None) -> int | None:
    """How many numbers a list such as "0-7,16" holds."""
    if not cpus:
        return None
    parts = [one.partition("-") for one in cpus.split(",")]
    if not all(first.isdigit() and (not dash or last.isdigit()) for first, dash, last in parts):
        return None
    return sum(int(last or first) - int(first) + 1 for first, _, last in parts)


def _cpus(c: OfMember, _: str) -> Any:
    return _count(c.process.cpus_allowed) or c.missing("processes")


HOST = {
    "kernel_option": _named(lambda one: one.options), "product": _machine(lambda one: one.product),
    "huge_pages": _machine(lambda one: one.huge_pages), "swap_total": _machine(lambda one: one.swap_total),
    "swap_free": _machine(lambda one: one.swap_free), "numa_balancing": _machine(lambda one: one.numa_balancing),
    "numa_nodes": _machine(lambda one: None if one.numa is None else len(one.numa)),
    "iommu_groups": _machine(lambda one: one.iommu_groups),
    "gpus": _machine(lambda one: None if one.gpus is None else len(one.gpus)),
    "gpu_vendors": _gpus(lambda one: one.vendor), "gpu_names": _gpus(lambda one: one.name),
    "gpu_drivers": _gpus(lambda one: one.driver), "gpu_iommu": _gpus(lambda one: one.iommu_type), "acs_redirect": _acs,
    "module": _named(lambda one: one.modules), "nvidia_driver": _nvidia,
    "nvidia_open": _machine(lambda one: one.nvidia_open), "nvidia_parameter": _named(lambda one: one.nvidia_parameters),
    "rocm": _machine(lambda one: one.rocm), "devices": _machine(lambda one: None if one.devices is None else texts(one.devices)),
    "daemons": _machine(lambda one: None if one.daemons is None else texts(one.daemons)),
    "rdma_ports": _machine(
        lambda one: None
        if one.rdma is None
        else texts(f"{port.device}:{port.port} {port.state} {port.physical} {port.layer}" for port in one.rdma)
    ),
    "interfaces": _network(lambda one: None if one.interfaces is None else [each.name for each in one.interfaces]),
    "interfaces_up": _network(
        lambda one: None
        if one.interfaces is None
        else [each.name for each in one.interfaces if each.up and each.running and not each.loopback]
    ),
    "interface_kinds": _network(lambda one: None if one.interfaces is None else [each.kind for each in one.interfaces]),
    "addresses": _network(
        lambda one: None if one.interfaces is None else [address for each in one.interfaces for address in each.addresses]
    ),
    "default_route": _network(lambda one: one.default_route),
    "own_name_addresses": _network(lambda one: one.name_addresses), "nameservers": _network(lambda one: one.nameservers),
    "dns_options": _network(lambda one: one.dns_options), "search_domains": _search,
    "preloaded": _network(lambda one: one.preload), "asked_found": _asked("found"), "asked_missing": _asked("missing"),
    "proxy_uncovered": _network(lambda one: [each for proxy in one.proxies for each in proxy.uncovered]),
}  # fmt: skip
MEMBER = {"cpus_allowed": _cpus}
