"""GPUs on the PCI bus, their IOMMU groups, and the bridges above them that redirect peer-to-peer traffic.

Sysfs: Documentation/ABI/testing/sysfs-bus-pci, sysfs-kernel-iommu_groups. The configuration of bridges alone is read,
never that of a GPU, which may be the one that is sick. Access control services: PCI Express base specification, 7.7.11.
"""

from __future__ import annotations

import os
import re
import struct
from typing import Dict, List, Optional, Tuple

from ..model.frozen import replace
from ..model.machine import Gpu
from .reading import number, text, text_or_none

VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel", "0x19e5": "huawei", "0x1da3": "habana"}
_DISPLAY, _ACCELERATOR = "0x03", "0x12"  # classes
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
GPUS = 64
CONFIG = 4096  # bytes of a device's configuration; without root only the first 64 are given
_FIRST_EXTENDED, _ACS = 0x100, 0x000D
_REDIRECT = 0x4 | 0x8  # P2P request redirect, P2P completion redirect (control register at +6)


def gpus(sys: str) -> Optional[Tuple[Gpu, ...]]:
    """GPUs and accelerators by their address. None where the bus may not be listed."""
    bus = f"{sys}/bus/pci/devices"
    try:
        names = sorted(os.listdir(bus))
    except FileNotFoundError:
        return ()
    except OSError:
        return None
    bridges: Dict[str, Optional[bool]] = {}
    found = [one for one in (_gpu(sys, f"{bus}/{name}", name, bridges) for name in names) if one]
    return tuple(found[:GPUS])


def _gpu(sys: str, folder: str, name: str, bridges: Dict[str, Optional[bool]]) -> Optional[Gpu]:
    kind = (text_or_none(f"{folder}/class", 64) or "").strip()
    vendor = (text_or_none(f"{folder}/vendor", 64) or "").strip()
    known = VENDORS.get(vendor)
    if not (kind.startswith(_ACCELERATOR) or (kind.startswith(_DISPLAY) and known)):
        return None
    group = _last(f"{folder}/iommu_group")
    above = [part for part in os.path.realpath(folder).split("/")[:-1] if _ADDRESS.match(part)]
    for bridge in above:
        if bridge not in bridges:
            bridges[bridge] = redirects(_config(f"{sys}/bus/pci/devices/{bridge}/config"))
    seen = all(bridges[one] is not None for one in above)
    return Gpu(
        bus=name,
        vendor=known or vendor,
        driver=_last(f"{folder}/driver"),
        numa_node=number(f"{folder}/numa_node"),
        iommu_group=int(group) if group.isdigit() else None,
        iommu_type=(text_or_none(f"{sys}/kernel/iommu_groups/{group}/type", 64) or "").strip() if group else "",
        acs_redirect=tuple(one for one in above if bridges[one]) if seen else None,
    )


def _last(link: str) -> str:
    try:
        return os.readlink(link).rpartition("/")[2]
    except OSError:
        return ""


def _config(path: str) -> Optional[bytes]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, CONFIG)
    except OSError:
        return None
    finally:
        os.close(fd)


def redirects(config: Optional[bytes]) -> Optional[bool]:
    """Whether a bridge with this configuration sends peer-to-peer requests or completions up to the root. Pure.

    None when only the part is there that everybody may read. A bridge without extended configuration, or without the
    capability, redirects nothing.
    """
    if config is None or len(config) < 256:
        return None
    at, seen = _FIRST_EXTENDED, set()
    while at and at + 8 <= len(config) and at not in seen:
        seen.add(at)
        (header,) = struct.unpack_from("<I", config, at)
        if header & 0xFFFF == _ACS:
            (control,) = struct.unpack_from("<H", config, at + 6)
            return bool(control & _REDIRECT)
        at = header >> 20
    return False


def iommu_groups(sys: str) -> Optional[int]:
    """How many IOMMU groups there are: 0 where no IOMMU is in use. None where they may not be listed."""
    try:
        return len(os.listdir(f"{sys}/kernel/iommu_groups"))
    except FileNotFoundError:
        return 0
    except OSError:
        return None


def parse_information(content: str) -> Dict[str, str]:
    """The lines `NAME: VALUE` that NVIDIA's driver writes below /proc/driver/nvidia. Pure."""
    found = {}
    for line in content.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            found[name.strip()] = value.strip()
    return found


def with_names(root: str, known: Tuple[Gpu, ...]) -> Tuple[Gpu, ...]:
    """The GPUs with what NVIDIA's driver tells of them. The driver writes these files itself: a wedged one may not answer."""
    filled: List[Gpu] = []
    for one in known:
        try:
            told = parse_information(text(f"{root}/driver/nvidia/gpus/{one.bus}/information", 1 << 16))
        except OSError:
            told = {}
        filled.append(replace(one, name=told.get("Model", "")[:80], firmware=told.get("GPU Firmware", "")[:80]))
    return tuple(filled)
