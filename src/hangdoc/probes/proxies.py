"""Which of this machine's own names and addresses go through a proxy. Pure.

`no_proxy` is read as urllib and requests read it: `*` for everything, names as suffixes, and address ranges.
"""

from __future__ import annotations

import ipaddress
from typing import Dict, Iterable, List, Mapping, Tuple

from .redact import mask

LOCAL = ("localhost", "127.0.0.1")
_NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy")


def variables(env: Mapping[str, str]) -> Dict[str, str]:
    """The variables about proxies as they are set, passwords masked. Nothing without a proxy."""
    found = {name: mask(value)[:1024] for name, value in env.items() if name.lower() in _NAMES and value}
    return found if any(name.lower() != "no_proxy" for name in found) else {}


def uncovered(env: Mapping[str, str], names: Iterable[str]) -> Tuple[str, ...]:
    """Those of `localhost`, `127.0.0.1` and `names` that no_proxy does not except."""
    value = env.get("no_proxy") or env.get("NO_PROXY") or ""  # the small one counts where both are set
    patterns = [one.strip().lower() for one in value.replace(" ", ",").split(",") if one.strip()]
    return tuple(one for one in dict.fromkeys((*LOCAL, *names)) if not excepted(one.lower(), patterns))


def excepted(name: str, patterns: List[str]) -> bool:
    """Whether one of the patterns of no_proxy fits a host name or address."""
    address = _address(name)
    for pattern in patterns:
        if pattern == "*":
            return True
        if address is not None and "/" in pattern:
            if _inside(address, pattern):
                return True
            continue
        bare = pattern[2:] if pattern.startswith("*.") else pattern.lstrip(".")
        bare = bare.rpartition(":")[0] if bare.count(":") == 1 else bare  # a port does not matter here
        if name == bare or (address is None and bare and name.endswith("." + bare)):
            return True
    return False


def _address(name: str) -> object:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _inside(address: object, pattern: str) -> bool:
    try:
        return address in ipaddress.ip_network(pattern, strict=False)
    except (ValueError, TypeError):
        return False
