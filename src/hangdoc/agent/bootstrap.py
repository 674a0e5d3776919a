"""The first stages on a host: a few lines of shell that find a Python, and a few of Python that run the agent from memory.

The shell reads its lines from stdin, so that whatever starts it (ssh, docker, kubectl, srun) carries the one word `sh` and
no quoting; it says `go` before the zip may come, because a shell reads ahead. The lines of Python hold no single quote, so
that they fit between single quotes, and they are understood by old Pythons well enough to say that they are too old.
"""

from __future__ import annotations

from typing import List

# Python that cannot make a memfd (a libc or kernel without it) imports from the zip in its own memory; no file is written.
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
data = b"".join(parts)
sys.dont_write_bytecode = True
try:
    fd = os.memfd_create("hangdoc-agent")
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]
    sys.path.insert(0, "/proc/self/fd/%d" % fd)
except (AttributeError, OSError):
    import importlib.util, io, zipfile
    box = zipfile.ZipFile(io.BytesIO(data))
    names = set(box.namelist())
    class Memory:
        def find_spec(self, name, path=None, target=None):
            base = name.replace(".", "/")
            for file in (base + "/__init__.py", base + ".py"):
                if file in names:
                    inside = file.endswith("/__init__.py")
                    return importlib.util.spec_from_loader(name, self, origin=file, is_package=inside)
        def create_module(self, spec):
            return None
        def exec_module(self, module):
            file = module.__spec__.origin
            exec(compile(box.read(file), "hangdoc.zip/" + file, "exec"), module.__dict__)
    sys.meta_path.append(Memory())
from hangdoc.agent.main import serve
sys.exit(serve())
"""
# The folder comes last: it may hold other packages, too, and the agent wants none of them. What imports define is no garbage.
HERE = """\
import gc, sys
gc.set_threshold(20000)
sys.path.append(sys.argv[1])
from hangdoc.agent.main import serve
sys.exit(serve())
"""
UNAVAILABLE = 69  # exit status when there is no Python, or a too old one (EX_UNAVAILABLE)
GO = b'{"go":1}'  # the message of the shell: the zip may come
_VERSIONS = "python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8"
# One compound command, so that a shell has read all of it before it runs any of it. The interpreter of an engine is taken
# where the host has none: of a process in our own mount namespace, and only a file that root or we ourselves own. `comm`
# and `exe` answer also for a process whose memory map is locked, `cmdline` may not.
_FIND = """\
{
p=
old=
usable() { "$1" -I -S -c "import sys; sys.exit(sys.version_info < (3, 8))" </dev/null >/dev/null 2>&1; }
for c in VERSIONS /usr/local/bin/python3 /usr/bin/python3 /opt/conda/bin/python3; do
  w=$(command -v "$c" 2>/dev/null) || continue
  if usable "$w"; then p=$w; break; fi
  old="$old $w"
done
if [ -z "$p" ]; then
  for d in /proc/[0-9]*; do
    { read -r n <"$d/comm"; } 2>/dev/null || continue
    case $n in VLLM*|vllm*|sglang*|ray::*|python*|pt_main*) ;; *) continue ;; esac
    e=$(readlink "$d/exe" 2>/dev/null) || continue
    case $e in */python3*) ;; *) continue ;; esac
    [ "$(readlink "$d/ns/mnt" 2>/dev/null)" = "$(readlink /proc/self/ns/mnt)" ] || continue
    case $(stat -L -c %u "$e" 2>/dev/null) in 0|"$(id -u)") ;; *) continue ;; esac
    if usable "$e"; then p=$e; break; fi
  done
fi
if [ -z "$p" ]; then
  echo "hangdoc: no Python 3.8 or newer on this host${old:+, only$old}" >&2
  exit UNAVAILABLE
fi
printf "\\n\\036%s\\n" 'GO'
exec "$p" -I -S -c 'STAGE' SIZE
}
"""


def command(python: str, size: int) -> List[str]:
    """The command that starts the agent; the zip's `size` bytes must come first on its stdin."""
    return [python, "-I", "-S", "-c", STAGE, str(size)]


def here(python: str, folder: str) -> List[str]:
    """The command that starts the agent of this machine from the files in `folder`: nothing has to be sent, and its byte
    code is there."""
    return [python, "-I", "-S", "-c", HERE, folder]


def script(size: int) -> bytes:
    """Lines for the stdin of a POSIX shell, which answers `GO` or ends; after that the zip's `size` bytes must come."""
    words = {
        "VERSIONS": _VERSIONS,
        "UNAVAILABLE": str(UNAVAILABLE),
        "GO": GO.decode(),
        "SIZE": str(size),
        "STAGE": STAGE,
    }
    lines = _FIND
    for word, value in words.items():
        lines = lines.replace(word, value)
    return lines.encode()
