"""Facts of the launch as a whole, from the judgement, the logs, the arguments and the sockets. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from ..analysis import compare
from ..analysis.crash import oom
from ..analysis.logbook import Logbook
from ..analysis.nodes import away
from ..analysis.ports import servers
from ..engines.argv import number
from ..model.places import own
from .gather import Looked
from .values import Missing, Seen

_LAUNCHERS = ("launcher", "api-server", "dp-controller")
_TEXTS = 64  # values of one set


class BookLines(msgspec.Struct, frozen=True):
    """Lines that causes ask for, as the logs have them. `pid`: only lines of that member."""

    book: Logbook
    pid: int | None = None
    whose: bool = False

    @property
    def complete(self) -> bool:
        """Whether all text was read."""
        return not self.book.gaps and bool(self.book.states)

    def find(self, pattern: str) -> tuple[str, ...]:
        """The first and last lines that the pattern is in."""
        return tuple(one.text for one in self.book.spots.under(pattern) if not self.whose or one.pid == self.pid)


def _verdict(c: Looked, _: str) -> Any:
    if c.judgement.verdict == "undecided":
        return Missing("judged", "too little was seen to judge", "; ".join(c.judgement.missing))
    return c.judgement.verdict


def _phase(c: Looked, _: str) -> Any:
    return c.judgement.phase or c.missing("judged", reason="neither a log nor a stack tells it")


def _engine(c: Looked, _: str) -> Any:
    name = c.view.launch.engine
    return c.missing("arguments", reason="it is none that hangdoc knows") if name == "unknown" else name


def _version(c: Looked, _: str) -> Any:
    found = c.view.launch.version
    if found:
        return found
    for package in c.view.profile.packages:
        known = _package(c, package)
        if isinstance(known, str):
            return known
    return c.missing("packages", c.view.launch.root)


def _arg(c: Looked, name: str) -> Any:
    if c.view.launch.engine == "unknown":
        return c.missing("arguments", reason="the launch is of no engine that hangdoc knows")
    return c.view.launch.args.get(name)


def _env(c: Looked, name: str) -> Any:
    for pid in (c.view.launch.root, *sorted(c.view.launch.members)):
        process = c.process(pid)
        if process is not None and process.env is not None:
            return process.env.get(name)
    return c.missing("environ", c.view.launch.root)


def _package(c: Looked, name: str) -> Any:
    every = [track.process.packages for track in c.view.history.tracks.values() if track.process.packages]
    if not every:
        return c.missing("packages", c.view.launch.root)
    return next((one[name] for one in every if name in one), None)


def _modified(c: Looked, _: str) -> Any:
    every = [one.process.modified for one in c.view.history.tracks.values() if one.process.modified is not None]
    return tuple(sorted({path for one in every for path in one})) if every else c.missing("packages")


def _age(c: Looked, _: str) -> Any:
    root = c.process(c.view.launch.root)
    last = c.view.history.last
    return last.boot - root.start if root and last else c.missing("processes", c.view.launch.root)


def _log_silence(c: Looked, _: str) -> Any:
    mtimes = [one.log.mtime for one in c.view.logbook.states.values() if one.log.mtime is not None]
    last = c.view.history.last
    return max(0.0, last.at - max(mtimes)) if mtimes and last else c.missing("logs")


def _log(c: Looked, _: str) -> Any:
    return Seen(BookLines(c.view.logbook)) if c.view.logbook.states else c.missing("logs")


def _last_line(c: Looked, _: str) -> Any:
    states = list(c.view.logbook.states.values())
    if not states:
        return c.missing("logs")
    newest = max(states, key=lambda one: one.log.mtime or 0.0)
    if newest.pending.strip():
        return newest.pending.strip()
    return next((line.strip() for line in reversed(newest.tail) if line.strip()), None)


def _log_via(c: Looked, _: str) -> Any:
    states = c.view.logbook.states
    return tuple(sorted({one.log.via for one in states.values()})) if states else c.missing("logs")


def _exception(c: Looked, _: str) -> Any:
    if not c.view.logbook.states:
        return c.missing("logs")
    first = c.view.logbook.traceback
    return first.exception or None if first else None if not c.view.logbook.gaps else c.missing("logs", reason="gaps")


def _repeats(c: Looked, _: str) -> Any:
    return c.view.logbook.chatter_at is not None if c.view.logbook.states else c.missing("logs")


def _listening(c: Looked, _: str) -> Any:
    port = c.view.launch.port
    if port is None or not c.view.history.sockets_read:
        return c.missing("sockets")
    return servers(c.view).get(port) is not None


def _port_taken(c: Looked, _: str) -> Any:
    port = c.view.launch.port
    if port is None or not c.view.history.sockets_read:
        return c.missing("sockets")
    found = servers(c.view)
    return port in found and found[port] is None


def _health(c: Looked, _: str) -> Any:
    answer = c.view.history.health.get(c.view.launch.port or -1)
    if answer is None:
        return c.missing("health")
    return str(answer[1]) if answer[1] is not None else answer[2]


def _expected(c: Looked, _: str) -> Any:
    args = c.view.launch.args
    if c.view.launch.engine == "unknown":
        return c.missing("arguments")
    dp = number(args, "data-parallel-size", 1) if "enable-dp-attention" not in args else 1
    return number(args, "tensor-parallel-size", 1) * number(args, "pipeline-parallel-size", 1) * dp


def _seen(c: Looked, _: str) -> Any:
    return len(ranks(c))


def ranks(c: Looked) -> set[int]:
    """Pids of workers and schedulers; of the engine core where it has no workers."""
    needed = c.view.launch.needed
    found = {one.pid for one in needed if one.role in ("worker", "scheduler")}
    return found or {one.pid for one in needed if one.role == "engine-core"}


def _nodes_missing(c: Looked, _: str) -> Any:
    found = away(c.view)
    return found.names or None if found else None


def _never_came(c: Looked, _: str) -> Any:
    if not c.view.history.sockets_read:
        return c.missing("sockets")
    found = away(c.view)
    if found is not None and not found.never_came:
        return c.missing("sockets", reason="whether it connected could not be seen here")
    return found is not None


def _meeting(c: Looked, _: str) -> Any:
    nodes = c.view.launch.nodes
    return nodes[0].address or None if nodes else None


def _bars(c: Looked, _: str) -> Any:
    if not c.view.logbook.states:
        return c.missing("logs")
    return tuple(f"{label} {done}/{total}".strip() for label, done, total in _open_bars(c))[:_TEXTS]


def _bar_share(c: Looked, _: str) -> Any:
    if not c.view.logbook.states:
        return c.missing("logs")
    return min((done / total for _, done, total in _open_bars(c)), default=None)


def _open_bars(c: Looked) -> list[tuple[str, int, int]]:
    everyone = (*c.view.logbook.by_member.values(), c.view.logbook.others)
    paces = [pace for one in everyone for pace in one.paces.values() if pace.total > pace.done]
    return [(pace.label.strip(), pace.done, pace.total) for pace in paces]


def _apart(c: Looked, _: str) -> Any:
    known = {one.phase for pid in ranks(c) if (one := c.pictured.get(pid)) is not None}
    return c.missing("judged") if not known or None in known else len(known) > 1


def _victims(c: Looked, _: str) -> Any:
    return sum(1 for one in c.pictures if one.member.needed and one.victim)


def _others(c: Looked, _: str) -> Any:
    others = c.view.history.others
    if others is None:
        return c.missing("processes", reason="the host's other processes were not listed")
    return tuple(
        f"{one.engine} (process {own(one.root)}" + (f", port {one.port})" if one.port else ")") for one in others
    )


def _orphans(c: Looked, _: str) -> Any:
    others = c.view.history.others
    if others is None:
        return c.missing("processes", reason="the host's other processes were not listed")
    left = [one for one in others if not any(member.role in _LAUNCHERS for member in one.members.values())]
    return tuple(member.who for one in left for _, member in sorted(one.members.items()) if member.needed)[:_TEXTS]


def _overdue(c: Looked, _: str) -> Any:
    behind = c.judgement.behind
    late = compare.lateness(c.view, behind) if behind else None
    return late.overdue if late else c.missing("baseline", reason="no good start is on record")


def _missing_lines(c: Looked, _: str) -> Any:
    row = compare.row(c.view, c.judgement.behind)
    return tuple(row.missing_lines[:_TEXTS]) if row else c.missing("baseline", reason="no good start is on record")


def _programs(c: Looked, _: str) -> Any:
    return tuple(sorted({one.process.comm for one in c.view.history.tracks.values() if one.gone is None}))


def _ring_full(c: Looked, _: str) -> Any:
    if not c.view.history.rings:
        return c.missing("fds", reason="no ring in shared memory was seen")
    return any(unread >= ring.chunks for ring in c.view.history.rings for unread in ring.unread)


def _connecting(c: Looked, _: str) -> Any:
    if not c.view.history.sockets_read:
        return c.missing("sockets")
    return addresses(row.remote for rows in c.sockets.values() for row in rows if row.state == "SYN_SENT")


def _remote_peers(c: Looked, _: str) -> Any:
    if not c.view.history.sockets_read or any(
        one.process.fds is None for one in c.view.history.tracks.values() if one.member.needed and one.gone is None
    ):
        return c.missing("sockets")
    rows = [row for rows in c.sockets.values() for row in rows]
    own = {ip_of(row.local) for row in rows}
    return addresses(ip for row in rows if row.state == "ESTABLISHED" and not is_own(ip := ip_of(row.remote), own))


def ip_of(address: str) -> str:
    """The address without its port; an IPv4 address in IPv6 form is an IPv4 address."""
    return address.rpartition(":")[0].strip("[]").removeprefix("::ffff:")


def is_own(ip: str, own: set[str]) -> bool:
    """Whether an address is of this host: a local one of some connection, or loopback."""
    return ip in own or ip.startswith("127.") or ip in ("::1", "", "0.0.0.0", "::")  # noqa: S104


def addresses(found: Any) -> tuple[str, ...]:
    """Addresses, each once, in order, bounded."""
    return tuple(sorted(set(found)))[:_TEXTS]


def _oom(c: Looked, _: str) -> Any:
    if not c.view.history.facts:
        return c.missing("host")
    found = tuple(oom(c.view))
    if found:
        return found
    denied = c.missing("host")
    return denied if denied.reason != "not looked at" else None


def _head(c: Looked, _: str) -> Any:
    return c.view.launch.head


def _nodes(c: Looked, _: str) -> Any:
    return number(c.view.launch.args, "nnodes", 1) if c.view.launch.engine != "unknown" else c.missing("arguments")


def _node_rank(c: Looked, _: str) -> Any:
    return number(c.view.launch.args, "node-rank", 0) if c.view.launch.engine != "unknown" else c.missing("arguments")


def _port(c: Looked, _: str) -> Any:
    return c.view.launch.port if c.view.launch.port is not None else c.missing("arguments")


GETTERS = {
    "verdict": _verdict, "phase": _phase, "engine": _engine, "version": _version, "arg": _arg, "env": _env,
    "package": _package, "modified": _modified, "age": _age, "log_silence": _log_silence, "log": _log,
    "last_line": _last_line, "log_via": _log_via, "exception": _exception, "repeats": _repeats, "port": _port,
    "listening": _listening, "port_taken": _port_taken, "health": _health, "head": _head, "nodes": _nodes,
    "node_rank": _node_rank, "nodes_missing": _nodes_missing, "never_came": _never_came, "meeting_place": _meeting,
    "ranks_expected": _expected, "ranks_seen": _seen, "programs": _programs,
    "bars": _bars, "bar_share": _bar_share, "ranks_apart": _apart, "victim_count": _victims,
    "other_launches": _others, "orphans": _orphans,
    "overdue": _overdue, "missing_lines": _missing_lines, "ring_full": _ring_full, "connecting": _connecting,
    "remote_peers": _remote_peers, "oom": _oom,
}  # fmt: skip
