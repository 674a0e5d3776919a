"""Facts of one member, from its picture, its track, its descriptors and its sockets. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..analysis import floors
from ..analysis.calls import name_of
from ..analysis.crash import signal_of
from ..analysis.mechanisms import is_output
from ..analysis.tracks import Track
from ..analysis.view import Picture
from ..model.sample import Cgroup, Fd, Frame, HostFacts, Process
from .gather import Looked
from .of_launch import BookLines, addresses
from .values import Missing, Seen

_TEXTS = 200  # values of one set
_PAGE = 4096
_OUTPUTS = (1, 2)
# What a system call or a state says by itself: without a Python stack nothing else is known of what a thread does.
_BY_ITSELF = frozenset(
    ("dead", "stopped", "frozen", "traced", "uninterruptible", "pipe-write", "terminal-read", "file-lock", "fifo-open")
)

_SLEEPS = ("sleep", "sleep-loop")


class OfMember(msgspec.Struct, frozen=True):
    """One member in a launch that was looked at."""

    looked: Looked
    track: Track
    picture: Picture | None

    @property
    def process(self) -> Process:
        """As last seen."""
        return self.track.process

    def missing(self, probe: str, reason: str = "") -> Missing:
        """Why a fact of it has no value."""
        return self.looked.missing(probe, self.process.pid, reason)

    @property
    def facts(self) -> HostFacts | None:
        """Facts of the host that it runs on."""
        return self.looked.view.history.facts_of(self.process.pid)

    def cgroup(self) -> Cgroup | None:
        """The cgroup that it is in."""
        facts = self.facts
        return facts.cgroups.get(self.process.cgroup or "") if facts else None


def frame_text(frame: Frame) -> str:
    """A frame as causes name it: FUNCTION (FILE)."""
    return f"{frame.function} ({frame.short or frame.file})"


def _picture(probe: str, of: Callable[[Picture], Any]) -> Callable[[OfMember, str], Any]:
    """A field of the picture; None in it means that nothing told."""

    def get(c: OfMember, _: str) -> Any:
        found = of(c.picture) if c.picture is not None else None
        return found if found is not None else c.missing(probe)

    return get


def _process(probe: str, of: Callable[[Process], Any]) -> Callable[[OfMember, str], Any]:
    def get(c: OfMember, _: str) -> Any:
        found = of(c.process)
        return found if found is not None else c.missing(probe)

    return get


def _mechanism(c: OfMember, _: str) -> Any:
    one = c.picture
    if one is None or one.mechanism == "unknown":
        return c.missing("threads")
    if one.stack is None and one.mechanism not in _BY_ITSELF:
        return c.missing("stacks")
    if one.mechanism in _SLEEPS and c.looked.view.launch.nodes_wanted > 1 and not c.looked.view.history.sockets:
        return c.missing("sockets")  # between two tries to connect to another node it sleeps, too
    return one.mechanism


def _innermost(c: OfMember, _: str) -> Any:
    stack = c.picture.stack if c.picture else None
    return frame_text(stack.frames[0]) if stack and stack.frames else c.missing("stacks")


def _frames(c: OfMember, _: str) -> Any:
    stack = c.picture.stack if c.picture else None
    return tuple(frame_text(one) for one in stack.frames[:_TEXTS]) if stack and stack.frames else c.missing("stacks")


def _any_frames(c: OfMember, _: str) -> Any:
    stacks = c.track.last_stacks
    found = dict.fromkeys(frame_text(frame) for stack in stacks for frame in stack.frames)
    return tuple(found)[:_TEXTS] if stacks else c.missing("stacks")


def _native(c: OfMember, _: str) -> Any:
    stacks = c.process.native
    return (
        tuple(frame_text(one) for stack in stacks for one in stack.frames)[:_TEXTS] if stacks else c.missing("native")
    )


def _kernel(c: OfMember, _: str) -> Any:
    stacks = c.process.kernel_stacks
    if stacks is None:
        return c.missing("kernel")
    return tuple(dict.fromkeys(one for stack in stacks.values() for one in stack))[:_TEXTS]


def _waits_for(c: OfMember, _: str) -> Any:
    if c.picture is None or c.picture.stack is None:
        return c.missing("stacks")
    return c.picture.waits_for


def _via(c: OfMember, _: str) -> Any:
    if c.process.threads is None:
        return c.missing("threads")
    return tuple(sorted({one.via for one in c.looked.waits.get(c.process.pid, ())}))


def _wait_objects(c: OfMember, _: str) -> Any:
    if c.process.fds is None:
        return c.missing("fds")
    return tuple(sorted({one.object for one in c.looked.waits.get(c.process.pid, ()) if one.object}))


def _nobody(c: OfMember, _: str) -> Any:
    if c.process.fds is None or c.process.threads is None:
        return c.missing("fds")
    return any(not one.targets for one in c.looked.waits.get(c.process.pid, ()))


def _object(c: OfMember, _: str) -> Any:
    one = c.picture
    if one is None or (one.object is None and c.process.fds is None):
        return c.missing("fds")
    return one.object


def path_of(c: OfMember) -> str | None:
    """The file that a member waits for, where it is one."""
    files = ("flock", "fcntl", "file", "fifo")
    edges = [one.object for one in c.looked.waits.get(c.process.pid, ()) if one.object and one.via in files]
    found = [c.picture.object if c.picture else None, *edges]
    return next((one for one in found if one and one.startswith("/")), None)


def _path(c: OfMember, _: str) -> Any:
    found = path_of(c)
    return found if found is not None or c.process.fds is not None else c.missing("fds")


def _syscall(c: OfMember, _: str) -> Any:
    main = c.track.main
    found = name_of(main.syscall, c.looked.view.arch) if main else None
    return found if found else c.missing("threads")


def _wchan(c: OfMember, _: str) -> Any:
    main = c.track.main
    return main.wchan if main and main.wchan not in (None, "0", "") else c.missing("threads")


def _exit_signal(c: OfMember, _: str) -> Any:
    if not _ended(c):
        return None
    return signal_of(c.process.exit_code) if c.process.exit_code is not None else c.missing("processes")


def _exit_status(c: OfMember, _: str) -> Any:
    if not _ended(c):
        return None
    code = c.process.exit_code
    if code is None:
        return c.missing("processes")
    return None if signal_of(code) else code >> 8 & 0xFF


def _ended(c: OfMember) -> bool:
    return c.track.gone is not None or c.track.died is not None or c.process.state in "ZX"


def _cpu(c: OfMember, _: str) -> Any:
    window = c.picture.judged_s if c.picture else floors.STILL_S
    found = c.track.cpu_rate(c.looked.view.history.now - window)
    return round(found, 2) if found is not None else c.missing("processes", "looked at only once in the window")


def _helpers(c: OfMember, _: str) -> Any:
    return tuple(sorted({one.process.comm for one in c.looked.view.history.helpers_below(c.process.pid)}))


def _limit(c: OfMember, name: str) -> Any:
    if c.process.limits is None:
        return c.missing("environ")
    soft = c.process.limits.get(name, ("", ""))[0]
    return -1 if soft == "unlimited" else int(soft) if soft.isdigit() else None


def _fds(of: Callable[[dict[int, Fd]], Any]) -> Callable[[OfMember, str], Any]:
    return lambda c, _: of(c.process.fds) if c.process.fds else c.missing("fds")


def _open_files(fds: dict[int, Fd]) -> tuple[str, ...]:
    return tuple(sorted({one.target for one in fds.values() if one.kind in ("file", "device")}))[:_TEXTS]


def _output(fds: dict[int, Fd]) -> tuple[str, ...]:
    return tuple(sorted({fds[one].kind for one in _OUTPUTS if one in fds}))


def _output_full(c: OfMember, _: str) -> Any:
    if not c.process.fds:
        return c.missing("fds")
    pipes = [fd for one in _OUTPUTS if (fd := c.process.fds.get(one)) is not None and fd.kind in ("pipe", "fifo")]
    known = [fd.capacity - fd.unread < _PAGE for fd in pipes if fd.capacity is not None and fd.unread is not None]
    if any(known) or len(known) == len(pipes):
        return any(known)
    return c.missing("fds", "how full its output pipe is could not be seen")


def _output_blocked(c: OfMember, _: str) -> Any:
    if c.track.main is None or not c.process.fds or c.picture is None:
        return c.missing("fds" if c.track.main else "threads")
    return c.picture.mechanism == "pipe-write" and is_output(c.track.main, c.process)


def _not_run(c: OfMember, _: str) -> Any:
    known = c.track.threads.get(c.picture.tid) if c.picture and c.picture.tid is not None else None
    if known is None or known.slices is None:
        return c.missing("threads")
    return c.looked.view.history.now - known.not_run_since


def _input(fds: dict[int, Fd]) -> Any:
    return fds[0].kind if 0 in fds else None


def _sockets(state: str, *, local: bool = False) -> Callable[[OfMember, str], Any]:
    def get(c: OfMember, _: str) -> Any:
        if c.process.fds is None or not c.looked.view.history.sockets_read:
            return c.missing("sockets")
        rows = c.looked.sockets.get(c.process.pid, ())
        return addresses(one.local if local else one.remote for one in rows if one.state == state)

    return get


def _tcp_silence(c: OfMember, _: str) -> Any:
    clocks = [one.info.last_recv_s for one in c.looked.sockets.get(c.process.pid, ()) if one.info is not None]
    return min(clocks) if clocks else c.missing("sockets")


def _own_log(c: OfMember, _: str) -> Any:
    book = c.looked.view.logbook
    return Seen(BookLines(book, c.process.pid, whose=True)) if book.states else c.missing("logs")


def _own_last(c: OfMember, _: str) -> Any:
    book = c.looked.view.logbook
    written = book.by_member.get(c.process.pid)
    return written.last_line if written and written.last_line else c.missing("logs", "no line is known to be its own")


GETTERS = {
    "role": lambda c, _: c.track.member.role, "mechanism": _mechanism,
    "member_phase": _picture("judged", lambda one: one.phase), "detail": _picture("threads", lambda one: one.detail),
    "moving": _picture("judged", lambda one: one.moving), "quiet": _picture("judged", lambda one: one.quiet_s),
    "in_place": _picture("threads", lambda one: one.since_s), "innermost": _innermost, "frames": _frames,
    "any_frames": _any_frames, "native_frames": _native, "kernel_frames": _kernel, "waits_for": _waits_for, "via": _via,
    "wait_objects": _wait_objects, "nobody_known": _nobody, "object": _object, "path": _path, "syscall": _syscall,
    "wchan": _wchan, "state": _process("processes", lambda one: one.state),
    "program": _process("processes", lambda one: one.comm),
    "title": _process("processes", lambda one: " ".join(one.cmdline or ())[:400] or None),
    "exit_signal": _exit_signal, "exit_status": _exit_status, "cpu": _cpu,
    "rss": _process("processes", lambda one: one.rss), "threads": _process("processes", lambda one: one.num_threads),
    "helpers": _helpers, "limit": _limit, "open_files": _fds(_open_files), "output": _fds(_output),
    "output_full": _output_full, "output_blocked": _output_blocked, "not_run": _not_run,
    "input": _fds(_input), "connecting_to": _sockets("SYN_SENT"),
    "connected_to": _sockets("ESTABLISHED"), "listens_on": _sockets("LISTEN", local=True),
    "tcp_silence": _tcp_silence, "own_log": _own_log, "own_last_line": _own_last,
}  # fmt: skip
