"""The Pythons of this machine that tests can look at: ours, and those installed with pyenv."""

from __future__ import annotations

import sys
from pathlib import Path


def installed() -> dict[int, str]:
    """Minor version -> interpreter."""
    found = {
        int(one.parents[1].name.split(".")[1]): str(one) for one in Path.home().glob(".pyenv/versions/3.*/bin/python")
    }
    return {**found, sys.version_info.minor: sys.executable}


WITH_LOCKS = [one for minor, one in sorted(installed().items()) if minor in (11, 12, 13)]
WITH_GIL = [one for minor, one in sorted(installed().items()) if 8 <= minor <= 13]
