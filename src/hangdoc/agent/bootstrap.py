"""The first stage on a host: a few lines for `python3 -I -S -c`, which take the zip from stdin and run it from memory.

They hold no single quote, so that a shell on the way needs nothing but single quotes around them, and they are
understood by old Pythons well enough to say that they are too old.
"""

from __future__ import annotations

from typing import List

# Python that cannot make a memfd (a libc or kernel without it) reads the zip once from a private folder, gone at once.
STAGE = """\
import os, sys
if sys.version_info < (3, 8):
    here = sys.version_info[:2] + (sys.executable,)
    sys.stderr.write("hangdoc: this host has Python %d.%d as %s, the agent needs 3.8 or newer\\n" % here)
    sys.exit(69)
left = int(sys.argv[1])
parts = []
while left:
    part = os.read(0, min(left, 65536))
    if not part:
        sys.stderr.write("hangdoc: the connection ended before the agent was there\\n")
        sys.exit(74)
    parts.append(part)
    left -= len(part)
folder = None
try:
    fd = os.memfd_create("hangdoc-agent")
    path = "/proc/self/fd/%d" % fd
except (AttributeError, OSError):
    import tempfile
    folder = tempfile.mkdtemp(prefix="hangdoc-")
    path = folder + "/agent.zip"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
try:
    view = memoryview(b"".join(parts))
    while view:
        view = view[os.write(fd, view):]
    sys.path.insert(0, path)
    sys.dont_write_bytecode = True
    from hangdoc.agent.main import serve
finally:
    if folder:
        os.close(fd)
        os.unlink(path)
        os.rmdir(folder)
sys.exit(serve())
"""
TOO_OLD = 69  # exit status when Python is too old (EX_UNAVAILABLE)


def command(python: str, size: int) -> List[str]:
    """The command that starts the agent; the zip's `size` bytes must come first on its stdin."""
    return [python, "-I", "-S", "-c", STAGE, str(size)]
