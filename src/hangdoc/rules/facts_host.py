"""Facts of a host: its state, the folders and files of the launch there, its machine, its network."""

from __future__ import annotations

from .fact import Fact, Kind


def _host(name: str, kind: Kind, means: str, label: str = "", *, named: bool = False, probe: str = "host") -> Fact:
    return Fact(name, kind, "host", probe, means, label, named)


def _stored(name: str, kind: Kind, means: str, label: str = "", *, named: bool = False) -> Fact:
    return _host(name, kind, means, label, named=named, probe="storage")


def _machine(name: str, kind: Kind, means: str, label: str = "", *, named: bool = False) -> Fact:
    return _host(name, kind, means, label, named=named, probe="machine")


def _network(name: str, kind: Kind, means: str, label: str = "", *, named: bool = False) -> Fact:
    return _host(name, kind, means, label, named=named, probe="network")


ROWS = (
    # The host
    _host("kernel", "version", "Version of the kernel."),
    _host("arch", "text", "Machine architecture: x86_64, aarch64."),
    _host("cpus", "number", "CPUs of the host."),
    _host("memory_total", "bytes", "Memory of the host."),
    _host("memory_available", "bytes", "Memory that is available without swapping."),
    _host("memory_available_share", "number", "The same as a share of all, 0 to 1."),
    _host("shm_total", "bytes", "Size of /dev/shm as the members see it.", "size of /dev/shm"),
    _host("shm_free", "bytes", "Free bytes of /dev/shm as the members see it.", "free in /dev/shm"),
    _host("pressure", "number", "Pressure stall in per cent, named as in io.some.avg10, memory.full.avg60.",
          "pressure", named=True),
    _host("dead_mounts", "texts", "Mount points that did not answer within 0.5 s.", "mounts that do not answer"),
    _host("remote_mounts", "texts", "Types of mounts served by other machines or programs: nfs4, fuse.s3fs, lustre …",
          "remote mounts"),
    _host("kernel_oom", "texts", "Lines of the OOM killer in the kernel log, of the last day.", "kernel log"),
    _host("kernel_xid", "texts", "Lines about GPU errors in the kernel log (Xid, SXid, amdgpu resets).", "kernel log"),
    _host("kernel_hung_task", "texts", "Lines about tasks blocked for minutes in the kernel log.", "kernel log"),
    _host("yama", "number", "kernel.yama.ptrace_scope."),
    _host("container", "text", "The kind of container that hangdoc runs in, empty outside of one."),
    # Folders and files of the launch on a host. `name` is a role: model tokenizer draft-model download-dir hub xet
    # vllm-cache sglang-cache torch-extensions inductor triton flashinfer deep-gemm aiter cuda-cache modelscope tilelang ray
    # temporary home site-packages, or `any`.
    _stored("place_paths", "texts", "Folders of a role.", "folder", named=True),
    _stored("place_free", "bytes", "Bytes that may still be written there, of the fullest one.", "free in", named=True),
    _stored("place_inodes_free", "number", "Files that may still be made there.", "files that may be made in", named=True),
    _stored("place_kinds", "texts", "Types of the file systems: ext4 overlay tmpfs nfs4 lustre fuse.s3fs …",
            "file system of", named=True),
    _stored("place_remote", "bool", "Its file system is served by another machine or by a program.", "remote:", named=True),
    _stored("place_read_only", "bool", "It is mounted read-only.", "read-only:", named=True),
    _stored("place_silent", "bool", "Its file system did not answer within 0.5 s.", "does not answer:", named=True),
    _stored("checkpoint_missing", "number", "Weight files that the checkpoint's index names and that are not there.",
            "weight files missing"),
    _stored("checkpoint_bytes", "bytes", "Size of the weight files.", "size of the checkpoint"),
    _stored("checkpoint_formats", "texts", "safetensors bin pt gguf.", "format of the checkpoint"),
    _stored("partials", "texts", "Files that are being downloaded, or were left so.", "unfinished downloads"),
    _stored("partial_silence", "seconds", "Since the youngest of them grew.", "downloads silent for"),
    _stored("left_locks", "texts", "Lock files that lock by being there and have nobody behind them: batons (`lock`, `lock_…`)"
            " that no member has open, soft locks whose owner has ended.",
            "lock files left behind in", named=True),
    _stored("left_lock_age", "seconds", "Since the oldest of them was changed.", "age of the lock left in", named=True),
    _stored("idle_locks", "texts", "Lock files without a kernel lock that no member has open. Flocks leave such files behind"
            " everywhere: alone they are no sign of anything.", "unlocked lock files in", named=True),
    _stored("held_locks", "texts", "Lock files that the kernel says are locked.", "lock files held in", named=True),
    # What a host is made of
    _machine("kernel_option", "text", "An option of the kernel command line, of an allow-list; the empty text without a value.",
             "kernel option", named=True),
    _machine("product", "text", "Vendor and model of the machine, by its firmware.", "machine"),
    _machine("huge_pages", "text", "Transparent huge pages: always madvise never.", "transparent huge pages"),
    _machine("swap_total", "bytes", "Swap."),
    _machine("swap_free", "bytes", "Free swap."),
    _machine("numa_balancing", "number", "kernel.numa_balancing."),
    _machine("numa_nodes", "number", "NUMA nodes."),
    _machine("iommu_groups", "number", "IOMMU groups; 0: no IOMMU in use.", "IOMMU groups"),
    _machine("gpus", "number", "GPUs on the PCI bus.", "GPUs"),
    _machine("gpu_vendors", "texts", "nvidia amd intel, else a PCI number.", "GPUs of"),
    _machine("gpu_names", "texts", "Models, as NVIDIA's driver tells them.", "GPU"),
    _machine("gpu_drivers", "texts", "Kernel drivers bound to them.", "GPU driver"),
    _machine("gpu_iommu", "texts", "Types of their IOMMU groups: identity is passed through, DMA and DMA-FQ are translated.",
             "IOMMU of the GPUs"),
    _machine("acs_redirect", "texts", "PCI addresses of GPUs above which a bridge's ACS redirects peer-to-peer traffic.",
             "ACS redirects traffic of GPU"),
    _machine("module", "version", "Version of a loaded kernel module that matters.", "kernel module", named=True),
    _machine("nvidia_driver", "version", "Version of NVIDIA's driver.", "NVIDIA driver"),
    _machine("nvidia_open", "bool", "It is the open kernel module.", "open NVIDIA kernel module"),
    _machine("nvidia_parameter", "text", "A parameter of NVIDIA's driver, of an allow-list.", "NVIDIA parameter", named=True),
    _machine("rocm", "version", "Version of ROCm.", "ROCm"),
    _machine("devices", "texts", "GPU and RDMA nodes below /dev."),
    _machine("daemons", "texts", "Daemons that GPUs and clusters need and that run: nvidia-fabricmanager …"),
    _machine("rdma_ports", "texts", "RDMA ports as DEVICE:PORT STATE PHYSICAL LAYER.", "RDMA port"),
    # The network as the members see it
    _network("interfaces", "texts", "Names of all interfaces."),
    _network("interfaces_up", "texts", "Names of those that are up and have a carrier, without loopback.", "interfaces up"),
    _network("interface_kinds", "texts", "Kinds of virtual ones: bridge veth bond vlan infiniband …", "kinds of interfaces"),
    _network("addresses", "texts", "Addresses of the interfaces, as 10.0.0.5/24."),
    _network("default_route", "texts", "Interfaces of default routes.", "default route through"),
    _network("own_name_addresses", "texts", "Addresses of the own host name in /etc/hosts.", "own host name is"),
    _network("nameservers", "texts", "Name servers of /etc/resolv.conf.", "name servers"),
    _network("dns_options", "texts", "Options of /etc/resolv.conf: ndots:5, timeout:1 …", "DNS options"),
    _network("search_domains", "number", "Search domains of /etc/resolv.conf.", "DNS search domains"),
    _network("preloaded", "texts", "Libraries of /etc/ld.so.preload.", "preloaded for all"),
    _network("asked_found", "texts", "Interfaces or RDMA devices that a variable (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME,"
             " NCCL_IB_HCA, …) lets be used.", "there is, of what is asked for by", named=True),
    _network("asked_missing", "texts", "Names in such a variable that fit nothing.", "there is not, of what is asked for by",
             named=True),
    _network("proxy_uncovered", "texts", "Of this machine's own names and addresses, those that go to a proxy because no_proxy"
             " does not except them.", "goes to the proxy:"),
)  # fmt: skip
