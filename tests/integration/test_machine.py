"""What this host is made of, held against what the system itself tells, and GPUs in a sysfs tree as a real one lays them out."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest

from hangdoc.model.machine import Machine
from hangdoc.model.sample import Unseen
from hangdoc.probes import machine, pci


def look(unseen: list[Unseen], root: str = "/proc", sys: str = "/sys", dev: str = "/dev") -> Machine:
    return list(machine.read(root, unseen, sys, dev))[-1]


def test_this_host() -> None:
    found = look([])
    assert found.page_size == os.sysconf("SC_PAGE_SIZE")
    assert found.pid_max == int(Path("/proc/sys/kernel/pid_max").read_text())
    assert found.gpus is not None
    assert found.rdma is not None
    if Path("/sys/devices/system/node").is_dir():
        assert found.numa
        names = {f"node{one.number}" for one in found.numa}
        assert names == {one.name for one in Path("/sys/devices/system/node").glob("node[0-9]*")}
        assert all(one.total is not None and one.free is not None and one.free <= one.total for one in found.numa)


def test_a_daemon_is_found_by_its_name(tmp_path: Path) -> None:
    if str(Path("/proc/self/ns/pid").readlink()) != "pid:[4026531836]":
        pytest.skip("from within a pid namespace nothing is said of daemons")
    sleep = shutil.which("sleep")
    assert sleep
    program = tmp_path / "nvidia-persistenced"
    shutil.copy(sleep, program)
    child = subprocess.Popen([program, "60"])
    try:
        end = time.monotonic() + 10
        # A program gets its name a moment after its files were closed, which is what Popen waits for.
        while Path(f"/proc/{child.pid}/comm").read_text() != "nvidia-persiste\n" and time.monotonic() < end:
            time.sleep(0.01)
        found = look([]).daemons
    finally:
        child.kill()
        child.wait()
    assert found is not None
    assert child.pid in found["nvidia-persistenced"]
    assert "nv-fabricmanager" not in found


def config(*capabilities: tuple[int, bytes], size: int = 4096) -> bytes:
    """A PCI configuration with these extended capabilities, one behind the other."""
    raw = bytearray(size)
    at = 0x100
    for number, (kind, body) in enumerate(capabilities):
        following = at + 0x40 if number + 1 < len(capabilities) else 0
        struct.pack_into("<I", raw, at, kind | 1 << 16 | following << 20)
        raw[at + 4 : at + 4 + len(body)] = body
        at = following
    return bytes(raw)


def acs(control: int) -> tuple[int, bytes]:
    return 0x000D, struct.pack("<HH", 0x7F, control)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (config((1, b""), acs(0b11101)), True),
        (config(acs(0b00100)), True),
        (config(acs(0b01000)), True),
        (config(acs(0b10001)), False),
        (config((1, b"")), False),
        (bytes(256), False),
        (bytes(64), None),
        (None, None),
    ],
)
def test_whether_a_bridge_redirects(raw: bytes | None, expected: bool | None) -> None:
    assert pci.redirects(raw) is expected


def test_a_list_of_capabilities_that_bites_its_tail_ends() -> None:
    raw = bytearray(config((1, b"")))
    struct.pack_into("<I", raw, 0x100, 1 | 1 << 16 | 0x100 << 20)
    assert pci.redirects(bytes(raw)) is False


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with two GPUs behind one bridge each, an IOMMU, and NVIDIA's driver."""
    sys, proc, dev = tmp_path / "sys", tmp_path / "proc", tmp_path / "dev"
    (sys / "bus/pci/devices").mkdir(parents=True)
    (sys / "bus/pci/drivers/nvidia").mkdir(parents=True)
    for number, control in ((1, 0b01100), (2, 0)):
        bridge = sys / f"devices/pci0000:00/0000:00:0{number}.0"
        gpu = bridge / f"0000:0{number}:00.0"
        gpu.mkdir(parents=True)
        (bridge / "config").write_bytes(config(acs(control)))
        (bridge / "class").write_text("0x060400\n")
        (gpu / "class").write_text("0x030200\n")
        (gpu / "vendor").write_text("0x10de\n")
        (gpu / "numa_node").write_text(f"{number - 1}\n")
        group = sys / f"kernel/iommu_groups/{number}"
        group.mkdir(parents=True)
        (group / "type").write_text("DMA-FQ\n" if number == 1 else "identity\n")
        (gpu / "iommu_group").symlink_to(group)
        (gpu / "driver").symlink_to(sys / "bus/pci/drivers/nvidia")
        for one in (bridge, gpu):
            (sys / "bus/pci/devices" / one.name).symlink_to(one)
        told = proc / f"driver/nvidia/gpus/{gpu.name}"
        told.mkdir(parents=True)
        (told / "information").write_text("Model: \t\t NVIDIA H200\nIRQ:   \t\t 65\nGPU Firmware: \t 580.95.05\n")
    (proc / "driver/nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (x@y)\nGCC version:  gcc 12\n"
    )
    (proc / "driver/nvidia/params").write_text(
        'EnableGpuFirmware: 18\nDmaRemapPeerMmio: 1\nRegistryDwords: "ForceP2P=0x11"\nX: 1\n'
    )
    (proc / "cmdline").write_text(
        "BOOT_IMAGE=/vmlinuz iommu=pt pci=noacs,realloc secret=1 intel_iommu=on -- iommu=off\n"
    )
    (proc / "modules").write_text("nvidia 1 2 - Live 0x0\nloop 1 2 - Live 0x0\nnvidia_uvm 1 2 - Live 0x0\n")
    (sys / "module/nvidia").mkdir(parents=True)
    (sys / "module/nvidia/version").write_text("580.95.05\n")
    port = sys / "class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    for name, value in (("state", "1: DOWN"), ("phys_state", "2: Polling"), ("link_layer", "InfiniBand")):
        (port / name).write_text(value + "\n")
    dev.mkdir()
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "sda"):
        (dev / name).touch()
    return tmp_path


def test_gpus_with_their_groups_bridges_and_driver(host: Path) -> None:
    unseen: list[Unseen] = []
    found = look(unseen, *(str(host / name) for name in ("proc", "sys", "dev")))
    first, second = found.gpus or ()
    assert (first.bus, first.vendor, first.driver, first.name) == ("0000:01:00.0", "nvidia", "nvidia", "NVIDIA H200")
    assert (first.iommu_group, first.iommu_type, first.acs_redirect) == (1, "DMA-FQ", ("0000:00:01.0",))
    assert (second.iommu_type, second.acs_redirect, second.numa_node) == ("identity", (), 1)
    assert first.firmware == "580.95.05"
    assert found.iommu_groups == 2
    assert (found.nvidia_driver, found.nvidia_open) == ("580.95.05", True)
    assert found.nvidia_parameters == {
        "EnableGpuFirmware": "18",
        "DmaRemapPeerMmio": "1",
        "RegistryDwords": "ForceP2P=0x11",
    }
    assert found.options == {"iommu": "pt", "pci": "noacs,realloc", "intel_iommu": "on"}
    assert found.modules == {"nvidia": "580.95.05", "nvidia_uvm": ""}
    assert found.devices == ("nvidia-uvm", "nvidia0", "nvidiactl")
    (port,) = found.rdma or ()
    assert (port.device, port.port, port.state, port.physical, port.layer) == (
        "mlx5_0", 1, "DOWN", "Polling", "InfiniBand",
    )  # fmt: skip
    assert unseen == []


def test_without_root_the_bridges_are_unseen(host: Path) -> None:
    for bridge in host.glob("sys/devices/pci0000:00/*/config"):
        bridge.write_bytes(bridge.read_bytes()[:64])  # what the kernel gives to others
    unseen: list[Unseen] = []
    found = look(unseen, *(str(host / name) for name in ("proc", "sys", "dev")))
    assert [one.acs_redirect for one in found.gpus or ()] == [None, None]
    assert [(one.probe, one.reason) for one in unseen] == [("machine", "denied")]
    assert [one.iommu_group for one in found.gpus or ()] == [1, 2]


def test_a_driver_that_does_not_answer_costs_only_what_it_would_have_told(host: Path) -> None:
    """Its files are written by itself: what comes before them is there already."""
    steps = machine.read(str(host / "proc"), [], str(host / "sys"), str(host / "dev"))
    first, second = next(steps), next(steps)
    assert (first.nvidia_driver, first.gpus) == ("580.95.05", None)
    assert [one.name for one in second.gpus or ()] == ["", ""]
    assert [one.iommu_group for one in second.gpus or ()] == [1, 2]
