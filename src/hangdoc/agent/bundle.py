"""The agent as one zip: `model`, `probes` and `agent`, the same bytes for the same source."""

from __future__ import annotations

import importlib.util
import io
import marshal
import zipfile
from importlib.machinery import SourceFileLoader
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


def compiled() -> Dict[str, bytes]:
    """Byte code of the same files for this very Python, taken from its caches where they are good.

    It halves the start of an agent that runs the same Python. The header says "by hash, not to be checked" (PEP 552).
    """
    package = Path(__file__).parent.parent
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
    found = {}
    for name in sources():
        loader = SourceFileLoader(name[:-3].replace("/", "."), str(package.parent / name))
        code = loader.get_code(loader.name)
        found[name + "c"] = header + marshal.dumps(code)
    return found


def pack(files: Dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of the files, deterministic."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, data in sorted(files.items()):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = method
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
    return target.getvalue()


def build() -> bytes:
    """The zip that is sent to hosts, started by agent/bootstrap.py."""
    return pack(sources())


def build_here() -> bytes:
    """The same for an agent that this very Python runs: with byte code, and not compressed."""
    return pack({**sources(), **compiled()}, zipfile.ZIP_STORED)


def dump() -> bytes:
    """The same zip with a `__main__`: `python3 FILE [PID…]` prints a case."""
    return pack({**sources(), "__main__.py": _MAIN.encode()})
