"""What the host is made of, by procfs and sysfs alone: no library of a driver is called, for that can hang.

Forms: kernel's admin-guide/kernel-parameters.rst, ABI/stable/sysfs-class-infiniband, ABI/stable/sysfs-devices-node; NVIDIA's
driver README, "The /proc interface to the NVIDIA driver".
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Dict, Iterator, List, Optional, Tuple

from ..model.frozen import replace
from ..model.machine import Machine, NumaNode, RdmaPort
from ..model.sample import Unseen
from . import pci
from .hostfacts import meminfo
from .readers import INIT_PID_NS
from .reading import number, reason, text, text_or_none

# Options of the kernel that matter to a start; others, which may hold what is nobody's business, stay on the host.
OPTIONS = re.compile(
    r"(?:iommu(?:\.\w+)?|intel_iommu|amd_iommu|pci|pcie_\w+|pci-\w+|numa\w*|isolcpus|nohz_full|rcu_nocbs|irqaffinity"
    r"|transparent_hugepage|hugepages|hugepagesz|default_hugepagesz|mitigations|nvidia[\w-]*\.\w+|amdgpu\.\w+"
    r"|module_blacklist|modprobe\.blacklist|rd\.driver\.blacklist|nouveau\.\w+|cgroup_\w+|swapaccount|psi|swiotlb|mem"
    r"|maxcpus|nosmt|systemd\.unified_cgroup_hierarchy|kvm[\w-]*\.\w+|vfio[\w-]*\.\w+|init_on_alloc|nomodeset)\Z"
)
MODULES = re.compile(
    r"(?:nvidia\w*|nouveau|amdgpu|amdkfd|i915|xe|gdrdrv|nv_peer_mem|mlx[45]_\w+|ib_\w+|rdma_\w+|efa|bnxt_re|irdma|xpmem|knem"
    r"|habanalabs|drv_\w+|vfio_pci|nvme_rdma|fuse|lustre|nfs|ceph)\Z"
)
PARAMETERS = frozenset(
    (
        "EnableGpuFirmware", "OpenRmEnableUnsupportedGpus", "EnableStreamMemOPs", "NvLinkDisable", "RegistryDwords",
        "RegistryDwordsPerDevice", "GrdmaPciTopoCheckOverride", "DmaRemapPeerMmio", "ImexChannelCount",
        "CreateImexChannel0", "DynamicPowerManagement", "PreserveVideoMemoryAllocations", "EnableMSI",
        "EnableResizableBar", "CoherentGPUMemoryMode",
    )
)  # fmt: skip
# A process's name is cut at 15 characters.
DAEMONS = {
    one[:15]: one
    for one in (
        "nv-fabricmanager", "nvidia-persistenced", "nv-hostengine", "nvidia-imex", "nvlsm", "nvidia-cuda-mps-control",
        "nvidia-cuda-mps-server", "opensm", "raylet", "gcs_server", "mooncake_master", "etcd", "dcgm-exporter",
        "nvidia-smi", "rocm-smi", "irqbalance", "earlyoom", "systemd-oomd",
    )
}  # fmt: skip
_NODES = re.compile(r"(?:nvidia\w*|nvidia-[\w-]+|kfd|gdrdrv|dxg|davinci\d*|accel\d*|infiniband)\Z")
PIDS = 16  # of one daemon
ITEMS = 256  # RDMA ports, NUMA nodes, device nodes
MODULES_LIMIT = 1 << 20
_VERSION = re.compile(r"Kernel Module(?: for \w+)?\s+(\d+\.[\d.]+)")


def read(root: str, unseen: List[Unseen], sys: str = "/sys", dev: str = "/dev") -> Iterator[Machine]:
    """Facts of this host, in three steps: what never blocks, then the bus, then what a driver writes."""
    memory = meminfo(text_or_none(f"{root}/meminfo") or "")
    line = text_or_none(f"{root}/cmdline", 1 << 14)
    version = text_or_none(f"{root}/driver/nvidia/version", 4096) or ""
    found = _VERSION.search(version)
    known = Machine(
        options=None if line is None else options(line),
        product=_product(sys),
        page_size=os.sysconf("SC_PAGE_SIZE"),
        huge_pages=_chosen(text_or_none(f"{sys}/kernel/mm/transparent_hugepage/enabled", 256) or ""),
        swap_total=memory.get("SwapTotal"),
        swap_free=memory.get("SwapFree"),
        numa_balancing=number(f"{root}/sys/kernel/numa_balancing"),
        overcommit=number(f"{root}/sys/vm/overcommit_memory"),
        threads_max=number(f"{root}/sys/kernel/threads-max"),
        pid_max=number(f"{root}/sys/kernel/pid_max"),
        numa=_numa(sys),
        modules=_modules(root, sys, unseen),
        nvidia_driver=found[1] if found else "",
        nvidia_open="Open Kernel Module" in version if found else None,
        nvidia_parameters=_parameters(text_or_none(f"{root}/driver/nvidia/params", 1 << 16)),
        rocm=(text_or_none("/opt/rocm/.info/version", 64) or "").strip()[:40],
        devices=_devices(dev),
        daemons=_daemons(root),
    )
    yield known
    known = replace(known, iommu_groups=pci.iommu_groups(sys), gpus=pci.gpus(sys), rdma=_rdma(sys))
    if known.gpus and any(one.acs_redirect is None for one in known.gpus):
        unseen.append(Unseen("machine", "denied", "PCI configuration of the bridges above GPUs: root only"))
    yield known
    if known.gpus and version:
        yield replace(known, gpus=pci.with_names(root, known.gpus))


def options(line: str) -> Dict[str, str]:
    """Options of the allow-list from the kernel's command line, the last of a name counts. Pure."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    if "--" in words:
        words = words[: words.index("--")]  # the rest is for init
    found = {}
    for word in words:
        name, _, value = word.partition("=")
        if OPTIONS.match(name):
            found[name] = value[:200]
    return found


def _chosen(content: str) -> str:
    """`always [madvise] never` as "madvise"."""
    found = re.search(r"\[(\w+)\]", content)
    return found[1] if found else ""


def _product(sys: str) -> str:
    parts = [(text_or_none(f"{sys}/class/dmi/id/{name}", 256) or "").strip() for name in ("sys_vendor", "product_name")]
    return " ".join(part for part in parts if part)[:120]


def _numa(sys: str) -> Optional[Tuple[NumaNode, ...]]:
    base = f"{sys}/devices/system/node"
    try:
        names = [one for one in os.listdir(base) if re.match(r"node\d+\Z", one)]
    except OSError:
        return None
    found = []
    for name in sorted(names, key=lambda one: int(one[4:]))[:ITEMS]:
        content = (text_or_none(f"{base}/{name}/meminfo", 1 << 14) or "").replace(f"Node {name[4:]} ", "")
        memory = meminfo(content)
        cpus = (text_or_none(f"{base}/{name}/cpulist", 4096) or "").strip()
        found.append(NumaNode(int(name[4:]), cpus, memory.get("MemTotal"), memory.get("MemFree")))
    return tuple(found)


def _modules(root: str, sys: str, unseen: List[Unseen]) -> Optional[Dict[str, str]]:
    try:
        content = text(f"{root}/modules", MODULES_LIMIT)
    except OSError as error:
        if reason(error) == "gone":  # a kernel without modules
            return {}
        unseen.append(Unseen("machine", reason(error), f"kernel modules: {error.strerror}"))
        return None
    names = [line.split(" ", 1)[0] for line in content.splitlines()]
    return {
        name: (text_or_none(f"{sys}/module/{name}/version", 128) or "").strip() for name in names if MODULES.match(name)
    }


def _parameters(content: Optional[str]) -> Optional[Dict[str, str]]:
    if content is None:
        return None
    told = pci.parse_information(content)
    return {name: value.strip('"')[:200] for name, value in told.items() if name in PARAMETERS}


def _devices(dev: str) -> Optional[Tuple[str, ...]]:
    try:
        return tuple(sorted(one for one in os.listdir(dev) if _NODES.match(one))[:ITEMS])
    except OSError:
        return None


def _daemons(root: str) -> Optional[Dict[str, Tuple[int, ...]]]:
    """Daemons by name. None from within a pid namespace, where those of the host are out of sight."""
    try:
        if os.readlink("/proc/self/ns/pid") != INIT_PID_NS:
            return None
        pids = [int(one) for one in os.listdir(root) if one.isdigit()]
    except OSError:
        return None
    found: Dict[str, Tuple[int, ...]] = {}
    for pid in sorted(pids):
        name = DAEMONS.get((text_or_none(f"{root}/{pid}/comm", 64) or "").strip())
        if name is not None and len(found.get(name, ())) < PIDS:
            found[name] = (*found.get(name, ()), pid)
    return found


def _rdma(sys: str) -> Optional[Tuple[RdmaPort, ...]]:
    base = f"{sys}/class/infiniband"
    try:
        devices = sorted(os.listdir(base))
    except FileNotFoundError:
        return ()
    except OSError:
        return None
    found = []
    for device in devices:
        try:
            ports = sorted(int(one) for one in os.listdir(f"{base}/{device}/ports") if one.isdigit())
        except OSError:
            continue
        try:
            interfaces = tuple(sorted(os.listdir(f"{base}/{device}/device/net")))
        except OSError:
            interfaces = ()
        node = number(f"{base}/{device}/device/numa_node")
        for port in ports:
            folder = f"{base}/{device}/ports/{port}"
            words = {one: (text_or_none(f"{folder}/{one}", 128) or "").strip() for one in ("state", "phys_state")}
            found.append(
                RdmaPort(
                    device,
                    port,
                    state=words["state"].rpartition(":")[2].strip(),  # "4: ACTIVE"
                    physical=words["phys_state"].rpartition(":")[2].strip(),
                    layer=(text_or_none(f"{folder}/link_layer", 64) or "").strip(),
                    rate=(text_or_none(f"{folder}/rate", 64) or "").strip(),
                    interfaces=interfaces,
                    numa_node=node,
                )
            )
    return tuple(found[:ITEMS])
