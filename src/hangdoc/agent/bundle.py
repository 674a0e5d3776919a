"""The agent as one zip: `model`, `probes` and `agent`, the same bytes for the same source."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Dict

PARTS = ("model", "probes", "agent")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time a zip can hold: no clock in the bytes
_MAIN = """\
import sys
if sys.version_info < (3, 8):
    sys.exit("hangdoc's agent needs Python 3.8 or newer, this is %d.%d" % sys.version_info[:2])
from hangdoc.agent.once import once
sys.exit(once(sys.argv[1:]))
"""


def sources() -> Dict[str, bytes]:
    """Every file of the agent by its name in the zip."""
    package = Path(__file__).parent.parent
    files = [package / "__init__.py"]
    for part in PARTS:
        files += (package / part).rglob("*.py")
    return {f"hangdoc/{file.relative_to(package).as_posix()}": file.read_bytes() for file in sorted(files)}


def pack(files: Dict[str, bytes]) -> bytes:
    """A zip of the files, deterministic."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in sorted(files.items()):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
    return target.getvalue()


def build() -> bytes:
    """The zip that is sent to hosts, started by agent/bootstrap.py."""
    return pack(sources())


def dump() -> bytes:
    """The same zip with a `__main__`: `python3 FILE [PID…]` prints a case."""
    return pack({**sources(), "__main__.py": _MAIN.encode()})
