"""Python stacks by `py-spy dump --json --nonblocking`, which stops no thread."""

from __future__ import annotations

import ctypes
import json
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from ..model.sample import Frame, Process, Stack, Unseen
from ..model.words import UnseenReason
from . import mounts
from .packages import programs
from .reading import text_or_none

OLDEST = (0, 4, 0)  # older ones attach with PTRACE_ATTACH and can leave a stop signal behind
VERSION_DEADLINE_S = 2.0
OUTPUT_LIMIT = 8 << 20
SIGN_S = 0.1  # how often who waits for a dump says that it lives
WATCH_S = 0.002  # how often a running tool is watched
PR_SET_PDEATHSIG = 1
# Compiled here once: a disposable child would do it each time.
_INTERPRETER, _LIBRARY = re.compile(r"python(\d\.\d+)[a-z]*\Z"), re.compile(r"/python(\d\.\d+)/")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
# What its last words mean, first match wins.
FAILURES: Tuple[Tuple[str, UnseenReason], ...] = (
    (r"(?i)permission denied|operation not permitted|os error (1|13)\b|sys_ptrace", "denied"),
    (r"(?i)no such process|os error 3\b|process .*(exited|not found)", "gone"),
    (r"(?i)unsupported|failed to find (a )?python|not a python|unknown python version", "unsupported"),
)
_VERSIONS: Dict[Tuple[str, int, int], str] = {}  # (path, inode, mtime) -> version: asking takes 7 ms


def find(root: str, process: Process, ours: Optional[str]) -> Tuple[Optional[str], str]:
    """(path, version) of a py-spy >= 0.4.0: the target's own, else `ours`, else that of PATH; (None, reason) without.

    The target's own is run only when it is in our mount namespace and nobody else could have put it there: a program
    out of a container must not be run with the rights of the host.
    """
    said = "no py-spy found"
    for path in _candidates(root, process, ours):
        version = _version(path)
        if parse_version(version) >= OLDEST:
            return path, version
        said = f"{path} is {version or 'no py-spy that answers'}, 0.4.0 or newer is needed"
    return None, said


def _candidates(root: str, process: Process, ours: Optional[str]) -> List[str]:
    paths: List[str] = []
    if _same_mounts(root, process.pid):
        beside = (os.path.join(os.path.dirname(one), "py-spy") for one in programs(process))
        paths = [path for path in beside if _trusted(path)]
    paths += [path for path in (ours, shutil.which("py-spy")) if path]
    return list(dict.fromkeys(paths))


def _same_mounts(root: str, pid: int) -> bool:
    try:
        return os.readlink(f"{root}/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
    except OSError:
        return False


def _trusted(path: str) -> bool:
    """A regular file and its folder that only root or we ourselves can write."""
    for one, kind in ((path, stat.S_ISREG), (os.path.dirname(path), stat.S_ISDIR)):
        try:
            facts = os.stat(one)
        except OSError:
            return False
        if not kind(facts.st_mode) or facts.st_uid not in (0, os.geteuid()) or facts.st_mode & stat.S_IWOTH:
            return False
    return True


def parse_version(said: str) -> Tuple[int, ...]:
    """`0.4.3` as (0, 4, 3), () when it is no version. Pure."""
    found = _VERSION.match(said)
    return tuple(map(int, found.groups())) if found else ()


def _version(path: str) -> str:
    try:
        facts = os.stat(path)
    except OSError:
        return ""
    key = (path, facts.st_ino, facts.st_mtime_ns)
    if key not in _VERSIONS:
        code, out, _ = run([path, "--version"], VERSION_DEADLINE_S)
        found = re.search(rb"py-spy (\d+\.\d+\.\d+\S*)", out) if code == 0 else None
        _VERSIONS[key] = found.group(1).decode() if found else ""
    return _VERSIONS[key]


def versions() -> List[Tuple[str, int, int, str]]:
    """What is known of the tools' versions, for `remember` in another process."""
    return [(*key, version) for key, version in _VERSIONS.items()]


def remember(known: Iterable[Sequence[Any]]) -> None:
    """Take over what another process has learnt."""
    _VERSIONS.update({(path, inode, changed): version for path, inode, changed, version in known if version})


def _end_with_us(libc: ctypes.CDLL, deadline_s: float, parent: int) -> None:
    """Between fork and exec: the tool is killed when we die, and ends by itself should that fail. Both survive exec."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # we died before that was set
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, deadline_s + 0.5)


def run(
    command: List[str], deadline_s: float, watch: Optional[Callable[[], None]] = None, every_s: float = WATCH_S
) -> Tuple[Optional[int], bytes, bytes]:
    """(exit status, None at the deadline; output; last words) of a tool that must not outlive the deadline or us.

    `watch` is called every few milliseconds, or every `every_s`, while it runs. At the deadline the tool gets SIGKILL,
    never SIGTERM: a tracer that tries to detach cleanly can wait for ever and keep threads stopped.
    """
    parent = os.getpid()
    libc = ctypes.CDLL(None)  # loaded here: between fork and exec nothing may take a lock
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # our process has one thread; nothing else can set these two between fork and exec
            preexec_fn=lambda: _end_with_us(libc, deadline_s, parent),  # noqa: PLW1509
            start_new_session=True,
            env={**os.environ, "RUST_BACKTRACE": "0"},
        )
    except OSError as error:
        return -1, b"", str(error).encode()
    out, complete = _drain(child, time.monotonic() + deadline_s, watch, every_s)
    code: Optional[int] = None
    end = time.monotonic() + (0.5 if complete else 0)
    while complete and code is None and time.monotonic() < end:
        code = child.poll()
        if code is None:
            time.sleep(0.001)
    if code is None:
        child.kill()
        for _ in range(50):  # a killed tool may sit in a read that nobody ends: it is not waited for
            if child.poll() is not None:
                break
            time.sleep(0.002)
    for stream in (child.stdout, child.stderr):
        if stream:
            stream.close()
    child.returncode = child.returncode if child.returncode is not None else -signal.SIGKILL
    return code, out[0], out[1]


def _drain(
    child: "subprocess.Popen[bytes]", end: float, watch: Optional[Callable[[], None]], every_s: float
) -> Tuple[Tuple[bytes, bytes], bool]:
    """(standard output and error, whether both ended in time and within their limits)."""
    streams = [stream.fileno() for stream in (child.stdout, child.stderr) if stream]
    parts: Dict[int, List[bytes]] = {fd: [] for fd in streams}
    sizes = dict.fromkeys(parts, 0)
    waiting = set(parts)
    while waiting and max(sizes.values()) <= OUTPUT_LIMIT:
        left = end - time.monotonic()
        if left <= 0:
            break
        if watch is not None:
            watch()
            left = min(left, every_s)
        for fd in select.select(list(waiting), [], [], left)[0]:
            data = os.read(fd, 1 << 16)
            if not data:
                waiting.discard(fd)
            parts[fd].append(data)
            sizes[fd] += len(data)
    out, err = (b"".join(parts[fd]) for fd in streams)
    return (out, err), not waiting


def dump(
    root: str,
    process: Process,
    pyspy: str,
    deadline_s: float,
    unseen: List[Unseen],
    sign: Optional[Callable[[], None]] = None,
) -> Tuple[Optional[List[Stack]], str]:
    """Stacks of one process, innermost frame first, and its Python version. Tids are those of the host. `sign` is called now
    and then while the tool runs.

    Costs the target nothing: its memory is read while it runs. On Python 3.10 and older the tool knows neither tids
    nor who is active, and some stacks of a busy process may be torn.
    """

    # the tool reads the interpreter's file: on a silent file system that would never end, nor could it be killed
    if process.exe and mounts.dead_below(root, process.pid, [process.exe]):
        unseen.append(Unseen("stacks", "skipped", "its Python lies on a file system that does not answer", process.pid))
        return None, ""
    command = [pyspy, "dump", "--json", "--nonblocking", "--pid", str(process.pid)]
    return understood(root, process, run(command, deadline_s, sign, SIGN_S), deadline_s, unseen)


def understood(
    root: str,
    process: Process,
    told: Tuple[Optional[int], bytes, bytes],
    deadline_s: float,
    unseen: List[Unseen],
    probe: str = "stacks",
) -> Tuple[Optional[List[Stack]], str]:
    """What a dump in JSON tells (`told`: what `run` gave), or its failure in `unseen`."""

    def missed(word: UnseenReason, detail: str) -> Tuple[None, str]:
        unseen.append(Unseen(probe, word, detail, process.pid))
        return None, ""

    code, out, words = told
    if code is None:
        return missed("timed-out", f"no stacks within {deadline_s:.1f} s")
    if code != 0:
        said = words.decode("utf-8", "backslashreplace").partition("Stack backtrace:")[0]
        last = " ".join(said.split())[:300]
        if not os.path.exists(f"{root}/{process.pid}"):
            return missed("gone", last)
        return missed(classify(last), last or f"py-spy ended with {code}")
    try:
        threads = json.loads(out)
        tids = host_tids(root, process)
        stacks = [stack(one, process.pid, tids, only=len(threads) == 1) for one in threads]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return missed("failed", f"its output was not understood: {error}")
    return stacks, python_version(stacks, process.exe or "")


def classify(words: str) -> UnseenReason:
    """Why it failed, from its last words. Pure."""
    return next((why for pattern, why in FAILURES if re.search(pattern, words)), "failed")


def host_tids(root: str, process: Process) -> Dict[int, int]:
    """Thread ids of the process's own pid namespace -> those of the host; empty where they are the same."""
    if len(process.nspid) <= 1:
        return {}
    found: Dict[int, int] = {}
    try:
        tasks = os.listdir(f"{root}/{process.pid}/task")
    except OSError:
        return found
    for tid in tasks:
        status = text_or_none(f"{root}/{process.pid}/task/{tid}/status", 1 << 14) or ""
        line = re.search(r"^NSpid:\s*(.*)$", status, re.MULTILINE)
        if line and line.group(1):
            found[int(line.group(1).split()[-1])] = int(tid)
    return found


def stack(thread: Dict[str, Any], pid: int, tids: Dict[int, int], *, only: bool = False) -> Stack:
    """One thread of py-spy's JSON. Raises KeyError, TypeError or AttributeError for another form. Pure.

    `only`: there is no other, so it is the main thread even where the tool cannot tell.
    """
    inner = thread["os_thread_id"]
    name = str(thread.get("thread_name") or "")
    tid = tids.get(inner) if tids else inner
    if inner is None and (only or name == "MainThread"):
        tid = pid
    frames = tuple(
        Frame(
            function=str(one["name"]),
            file=str(one["filename"]),
            short=str(one.get("short_filename") or ""),
            line=int(one.get("line") or 0),
        )
        for one in thread["frames"]
    )
    # without tids (Python <= 3.10) `active` is always true: that is no observation
    active = None if inner is None else bool(thread.get("active"))
    return Stack(tid=tid, name=name, active=active, gil=bool(thread.get("owns_gil")), frames=frames)


def python_version(stacks: List[Stack], exe: str) -> str:
    """`3.11` from the interpreter's name, else from the folder of standard library frames, else empty. Pure."""
    found = _INTERPRETER.search(exe)
    if found:
        return found.group(1)
    files = (frame.file for one in stacks for frame in one.frames)
    return next((m.group(1) for m in (_LIBRARY.search(file) for file in files) if m), "")
