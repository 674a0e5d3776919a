"""What a host is made of: kernel options, IOMMU, GPUs and their drivers, NUMA, RDMA. Asked once a look.

Part of a sample (probe `machine`). Nothing of it asks a driver through its library: NVML can hang as well. `None`
always means "not seen", an empty tuple "looked for, and there is none". Sizes are bytes. Standard library only and
Python 3.8.
"""

from typing import Dict, Optional, Tuple

from .frozen import dataclass


@dataclass(frozen=True)
class Gpu:
    """A GPU as the PCI bus lists it (sysfs), with what NVIDIA's driver tells of it in procfs."""

    bus: str  # PCI address "0000:17:00.0"
    vendor: str  # "nvidia", "amd", "intel", else the number "0x1ed5"
    driver: str = ""  # kernel driver bound to it: "nvidia", "amdgpu", "vfio-pci"; "" none
    name: str = ""  # model, by /proc/driver/nvidia/gpus/*/information
    firmware: str = ""  # GPU firmware (GSP) version, by the same
    numa_node: Optional[int] = None  # -1: the firmware does not tell
    iommu_group: Optional[int] = None  # None: in no group, or groups were not seen
    iommu_type: str = ""  # "identity" is passed through; "DMA", "DMA-FQ" are translated
    # Bridges above it whose ACS sends peer-to-peer traffic up to the root (ReqRedir or CmpltRedir on). None: their
    # configuration may not be read (root only).
    acs_redirect: Optional[Tuple[str, ...]] = None


@dataclass(frozen=True)
class NumaNode:
    """One NUMA node."""

    number: int
    cpus: str = ""  # "0-15,32-47"; "" for a node of memory alone
    total: Optional[int] = None
    free: Optional[int] = None


@dataclass(frozen=True)
class RdmaPort:
    """One port of an RDMA device (/sys/class/infiniband)."""

    device: str  # "mlx5_0"
    port: int
    state: str = ""  # ACTIVE INIT DOWN ARMED
    physical: str = ""  # LinkUp Polling Disabled …
    layer: str = ""  # InfiniBand Ethernet
    rate: str = ""  # "400 Gb/sec (4X NDR)"
    interfaces: Tuple[str, ...] = ()  # network interfaces of the same device
    numa_node: Optional[int] = None


@dataclass(frozen=True)
class Machine:
    """All of it."""

    options: Optional[Dict[str, str]] = None  # kernel command line: those of an allow-list, "" for one without a value
    product: str = ""  # vendor and model of the machine, by its firmware
    page_size: int = 0
    huge_pages: str = ""  # transparent ones: always madvise never
    swap_total: Optional[int] = None
    swap_free: Optional[int] = None
    numa_balancing: Optional[int] = None  # /proc/sys/kernel/numa_balancing
    overcommit: Optional[int] = None  # /proc/sys/vm/overcommit_memory
    threads_max: Optional[int] = None  # /proc/sys/kernel/threads-max
    pid_max: Optional[int] = None
    numa: Optional[Tuple[NumaNode, ...]] = None
    iommu_groups: Optional[int] = None  # how many; 0: no IOMMU in use
    # Kernel modules that matter (nvidia…, amdgpu, gdrdrv, mlx5, …) -> version, "" where it has none
    modules: Optional[Dict[str, str]] = None
    nvidia_driver: str = ""  # "580.95.05", of /proc/driver/nvidia/version; "" not loaded, or hidden from here
    nvidia_open: Optional[bool] = None  # the open kernel module; None when that is not told
    nvidia_parameters: Optional[Dict[str, str]] = None  # of an allow-list of /proc/driver/nvidia/params
    rocm: str = ""  # version of /opt/rocm
    devices: Optional[Tuple[str, ...]] = None  # GPU and RDMA nodes below /dev
    # Daemons that GPUs and clusters need -> their pids. None from within a pid namespace: they may be outside of it.
    daemons: Optional[Dict[str, Tuple[int, ...]]] = None
    rdma: Optional[Tuple[RdmaPort, ...]] = None
    gpus: Optional[Tuple[Gpu, ...]] = None
