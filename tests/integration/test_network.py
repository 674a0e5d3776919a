"""The network as members see it: real interfaces of a namespace, real files below another root, real variables."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from fuse import CLONE_NEWNS, MS_PRIVATE_ALL
from process_of import WAIT, member, process_of, with_environment

from hangdoc.model.network import Network
from hangdoc.model.sample import Unseen
from hangdoc.probes import network
from hangdoc.probes.namespaces import net_ns

MS_BIND = 4096


def look(pid: int, unseen: list[Unseen], sys_folder: str = "/sys") -> Network:
    (found,) = network.read("/proc", {pid: with_environment(pid, unseen)}, unseen, sys_folder)
    return found


def test_our_own_interfaces_are_those_that_the_system_lists() -> None:
    unseen: list[Unseen] = []
    with member() as pid:
        found = look(pid, unseen)
    assert found.interfaces is not None
    assert {one.name for one in found.interfaces} == {one.name for one in Path("/sys/class/net").iterdir()}
    for one in found.interfaces:
        assert one.mtu == int(Path(f"/sys/class/net/{one.name}/mtu").read_text())
    loopback = [one for one in found.interfaces if one.loopback]
    assert [one.name for one in loopback] == ["lo"]
    assert unseen == []


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
def test_interfaces_of_a_namespace_and_what_variables_ask_for() -> None:
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("no ip(8) or unshare(1) here")
    steps = (
        "ip link set lo up && ip link add br7 type bridge && ip link add v0 type veth peer name v1 && ip link set v0 up"
        ' && ip link set v1 up && ip addr add 10.9.8.7/24 dev v0 && ip route add default via 10.9.8.1 && exec "$@"'
    )
    with member(
        before=("unshare", "-n", "sh", "-c", steps, "sh"),
        NCCL_SOCKET_IFNAME="=eth0,v", GLOO_SOCKET_IFNAME="v0,eth0", TP_SOCKET_IFNAME="v",
    ) as pid:  # fmt: skip
        found = look(pid, [])
        assert found.net_ns == net_ns("/proc", pid) != net_ns("/proc")
    rows = {one.name: one for one in found.interfaces or ()}
    assert set(rows) == {"lo", "br7", "v0", "v1"}
    assert "10.9.8.7/24" in rows["v0"].addresses
    assert (rows["v0"].up, rows["v0"].running, rows["v0"].kind) == (True, True, "veth")
    assert (rows["br7"].up, rows["br7"].kind) == (False, "bridge")
    assert found.default_route == ("v0",)
    asked = {one.variable: (one.found, one.missing) for one in found.asked}
    assert asked == {
        "NCCL_SOCKET_IFNAME": ((), ("eth0", "v")),
        "GLOO_SOCKET_IFNAME": (("v0",), ("eth0",)),
        "TP_SOCKET_IFNAME": ((), ("v",)),
    }


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")
def test_a_namespace_without_a_default_route_says_so() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no unshare(1) here")
    with member(before=("unshare", "-n")) as pid:
        found = look(pid, [])
    assert found.default_route == ()
    assert [(one.name, one.up) for one in found.interfaces or ()] == [("lo", False)]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="makes a mount namespace")
def test_files_below_etc_are_those_of_the_member(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n10.1.1.1 gpu7.cluster gpu7 # gpu8\n")
    (tmp_path / "resolv.conf").write_text(
        "search a.b c.d\nnameserver 10.0.0.53\n# nameserver 1.1.1.1\noptions ndots:5\n"
    )
    (tmp_path / "hostname").write_text("gpu7\n")
    (tmp_path / "preload").write_text("/usr/local/vgpu/libvgpu.so\n")
    for target in ("/etc/hosts", "/etc/resolv.conf", "/etc/hostname"):
        if not Path(target).exists():
            pytest.skip(f"no {target} here to mount over")
    code = f"""
import ctypes, sys, time
libc = ctypes.CDLL(None)
assert libc.unshare({CLONE_NEWNS}) == 0
assert libc.mount(None, b"/", None, {MS_PRIVATE_ALL}, None) == 0
for name in ("hosts", "resolv.conf", "hostname"):
    assert libc.mount({str(tmp_path)!r}.encode() + b"/" + name.encode(), b"/etc/" + name.encode(), None, {MS_BIND}, None) == 0
{WAIT}
"""
    with member(code=code) as pid:
        found = look(pid, [])
    assert (found.name, found.name_addresses) == ("gpu7", ("10.1.1.1",))
    assert (found.nameservers, found.search, found.dns_options) == (("10.0.0.53",), 2, ("ndots:5",))
    assert found.preload == ()


def test_proxies_and_what_they_would_swallow() -> None:
    with member(http_proxy="http://me:secret@proxy:3128", no_proxy="localhost,.svc", HOSTNAME="box.svc") as pid:
        (proxy,) = look(pid, []).proxies
    assert proxy.pids == (pid,)
    assert "secret" not in proxy.variables["http_proxy"]
    assert proxy.variables["http_proxy"].endswith("@proxy:3128")
    assert "127.0.0.1" in proxy.uncovered
    assert not {"localhost", "box.svc"} & set(proxy.uncovered)


def test_devices_that_a_variable_asks_for(tmp_path: Path) -> None:
    for name in ("mlx5_0", "mlx5_1"):
        (tmp_path / "class/infiniband" / name).mkdir(parents=True)
    with member(NCCL_IB_HCA="^mlx5_1", UCX_NET_DEVICES="mlx5_0:1,lo,mlx5_9:1") as pid:
        asked = {one.variable: one for one in look(pid, [], str(tmp_path)).asked}
    assert (asked["NCCL_IB_HCA"].found, asked["NCCL_IB_HCA"].missing) == (("mlx5_0",), ())
    assert (asked["UCX_NET_DEVICES"].found, asked["UCX_NET_DEVICES"].missing) == (("mlx5_0", "lo"), ("mlx5_9",))


def test_a_member_that_is_gone_is_unseen() -> None:
    with member() as pid:
        one = process_of(pid)
    unseen: list[Unseen] = []
    began = time.monotonic()
    (found,) = network.read("/proc", {pid: one}, unseen)
    assert time.monotonic() - began < 2
    assert (found.nameservers, found.name_addresses, found.preload) == (None, None, None)
    assert {one.probe for one in unseen} == {"network"}
