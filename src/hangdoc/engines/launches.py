"""Launches in a scan sample: their roots, members with role and rank, wrappers, arguments. Pure."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import attrgetter

from ..model.frozen import replace
from ..model.launch import Launch, Member
from ..model.places import own, place_of
from ..model.sample import Process, Sample
from .argv import Program, arguments, number, program
from .load import pattern_set, profiles
from .nodes import join
from .profile import Profile
from .roles import assign, title_of, titled

# Where a walk up from a launch ends: these serve everybody, they wrap nobody.
_BORDERS = (
    "sshd",
    "systemd",
    "init",
    "login",
    "cron",
    "crond",
    "tmux",
    "tmux: server",
    "screen",
    "SCREEN",
    "containerd-shim",
    "dockerd",
)
_READ = attrgetter("start", "ppid", "comm", "cmdline", "env", "packages")
_TELLING = ("Z", "D")  # states that make a difference
_SHELLS = ("bash", "sh", "dash", "zsh", "ash")


@functools.lru_cache(maxsize=8192)
def _root_engine(line: str, engines: tuple[tuple[str, str], ...]) -> str | None:
    hits = pattern_set(tuple(text for _, text in engines)).hits(line)
    return engines[hits[0]][0] if hits else None


def _roots(known: Mapping[str, Profile]) -> tuple[tuple[str, str], ...]:
    return tuple((engine, text) for engine, profile in known.items() for text in profile.roots)


def _engine_of(process: Process, known: Mapping[str, Profile]) -> str | None:
    """The engine whose root this process is by its own command line, not by a word in some argument."""
    run = program(process.cmdline)
    # A frozen or shebang start shows the script itself as the program: "/usr/bin/vllm serve".
    return _root_engine(run.line, _roots(known)) if run.kind != "none" else None


def _children(processes: Mapping[int, Process]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for pid, process in sorted(processes.items(), key=lambda one: (one[1].start, one[0])):
        if pid != process.ppid:
            found.setdefault(process.ppid, []).append(pid)
    return found


def _descendants(root: int, children: Mapping[int, list[int]], taken: Collection[int] = ()) -> list[int]:
    """Below `root`, parents before their children, siblings in the order of their start; not what others have taken."""
    found: list[int] = []
    border = [root]
    seen = {root, *taken}
    while border:
        border = [child for pid in border for child in children.get(pid, ()) if child not in seen]
        seen.update(border)
        found += border
    return found


def ancestors(pid: int, processes: Mapping[int, Process]) -> Iterator[int]:
    """Its parent, that one's parent, and so on, as far as the sample goes."""
    seen = {pid}
    while (process := processes.get(pid)) and process.ppid not in seen and process.ppid in processes:
        pid = process.ppid
        seen.add(pid)
        yield pid


def _wraps(process: Process, profile: Profile, root: Program) -> bool:
    run = program(process.cmdline)
    if run.name in _SHELLS and len(run.words) == 1:
        return False
    # Whoever has the root's own command in its arguments started it, under whatever name.
    inner = " ".join(root.words[:2])
    return run.name in profile.wrappers or (bool(inner) and inner in " ".join(process.cmdline or ()))


def _wrappers(root: int, processes: Mapping[int, Process], profile: Profile) -> tuple[int, ...]:
    found = []
    run = program(processes[root].cmdline)
    for pid in ancestors(root, processes):
        process = processes[pid]
        if process.comm in _BORDERS or not _wraps(process, profile, run):
            break
        found.append(pid)
    return tuple(found)


def _version(pids: Iterable[int], processes: Mapping[int, Process], profile: Profile) -> str | None:
    for pid in pids:
        packages = processes[pid].packages or {}
        for name in profile.packages:
            if name in packages:
                return packages[name]
    return None


def _head(args: Mapping[str, str]) -> bool:
    return "headless" not in args and number(args, "node-rank", 0) == 0


def _port(args: Mapping[str, str], profile: Profile) -> int | None:
    """Where it will listen; None for a unix socket, and for a program of which nobody knows that it listens at all."""
    if "uds" in args or (profile.engine == "unknown" and "port" not in args):
        return None
    return number(args, "port", profile.default_port)


def _launch(root: int, profile: Profile, sample: Sample, below: list[int]) -> Launch:
    processes = sample.processes
    run = program(processes[root].cmdline)
    known_root = _engine_of(processes[root], {profile.engine: profile}) is not None or profile.engine == "unknown"
    args = arguments(run.words[1:], profile.aliases, profile.flags) if known_root else {}
    positional = args.pop("", "").split(" ")
    if positional[:1] == ["serve"] and len(positional) > 1 and "model" not in args:
        args["model"] = positional[1]
    pids = [root, *below]
    host = host_of(root, sample)
    members = assign(root, pids, processes, profile, args)
    if members[root].role == "api-server" and not _head(args):
        members[root] = replace(members[root], role="launcher")  # it serves no HTTP
    if sample.places:
        members = {pid: replace(one, host=host) for pid, one in members.items()}
    return Launch(
        host=host,
        root=root,
        engine=profile.engine,
        members=members,
        args=args,
        version=_version(pids, processes, profile),
        port=_port(args, profile),
        head=_head(args),
        wrappers=_wrappers(root, processes, profile),
    )


def host_of(pid: int, sample: Sample) -> str:
    """The host that a process of a sample runs on."""
    return sample.places[place_of(pid)].host if place_of(pid) < len(sample.places) else sample.host


def _own_script(pid: int, processes: Mapping[int, Process]) -> int | None:
    """The living Python program that started an engine process itself, without the engine's own command."""
    parent = processes.get(processes[pid].ppid)
    if parent is None or own(parent.pid) == 1 or parent.comm in _BORDERS:
        return None
    return parent.pid if program(parent.cmdline).kind == "python" else None


def _without_launcher(
    known: Mapping[str, Profile], sample: Sample, taken: set[int], children: Mapping[int, list[int]]
) -> list[Launch]:
    """Launches of engine processes below no root: started by a user's own script, or left by a dead launcher."""
    groups: dict[tuple[str, int | None], list[int]] = {}  # by engine and script
    for pid, process in sorted(sample.processes.items(), key=lambda one: (one[1].start, one[0])):
        if pid in taken or any(above in taken for above in ancestors(pid, sample.processes)):
            continue
        engine = next((name for name, profile in known.items() if titled(process, profile)), None)
        if engine and not any(titled(sample.processes[up], known[engine]) for up in ancestors(pid, sample.processes)):
            groups.setdefault((engine, _own_script(pid, sample.processes)), []).append(pid)
    found = []
    for (engine, script), pids in groups.items():
        tops = [pid for pid in ([script] if script is not None else pids) if pid not in taken]
        if not tops:
            continue
        below = [pid for top in tops for pid in (top, *_descendants(top, children, {*taken, *tops}))]
        launch = _launch(below[0], known[engine], sample, below[1:])
        if script is None:
            oldest = min(launch.needed or tuple(launch.members.values()), key=lambda one: (one.start, one.pid))
            launch = replace(launch, root=oldest.pid)
        taken.update(launch.members)
        found.append(launch)
    return found


def _with_ray_workers(launches: list[Launch], known: Mapping[str, Profile], sample: Sample) -> list[Launch]:
    """Ray starts an engine's workers below its own daemon: they belong to the one launch here that uses Ray."""
    users = [one for one in launches if one.args.get("distributed-executor-backend") == "ray"]
    if len(users) != 1:
        return launches
    (user,) = users
    members = dict(user.members)
    taken = {pid for one in launches for pid in one.members}
    for pid, process in sample.processes.items():
        found = titled(process, known[user.engine]) if pid not in taken else None
        if found and found[0].match.startswith("^ray::"):
            title = title_of(process)
            host = host_of(pid, sample) if sample.places else ""
            members[pid] = Member(pid, process.start, found[0].role, found[1], title, process.ppid, host=host)
    return [replace(one, members=members) if one is user else one for one in launches]


def telling(sample: Sample) -> tuple[object, ...]:
    """All of a sample that `find` looks at: while that stays the same, so do the launches."""
    states = ((pid, one.state if one.state in _TELLING else "", _READ(one)) for pid, one in sample.processes.items())
    return (sample.host, sample.places, *states)


def find(sample: Sample, known: Mapping[str, Profile] | None = None) -> list[Launch]:
    """Every launch that the sample shows, oldest first; one over several nodes is one. It needs the probe `scan`."""
    known = {engine: one for engine, one in (known or profiles()).items() if engine != "unknown"}
    processes = sample.processes
    engines = {pid: engine for pid, process in processes.items() if (engine := _engine_of(process, known))}
    # A forked child shows its parent's command line: only the topmost match is a root.
    roots = [pid for pid in engines if not any(above in engines for above in ancestors(pid, processes))]
    children = _children(processes)
    found = [_launch(root, known[engines[root]], sample, _descendants(root, children)) for root in roots]
    found = _with_ray_workers(found, known, sample)
    taken = {pid for launch in found for pid in launch.members}
    found += _without_launcher(known, sample, taken, children)
    return sorted(join(found, sample, known), key=lambda one: (processes[one.root].start, one.root))


def launch_of(pid: int, launches: Iterable[Launch], sample: Sample) -> Launch | None:
    """The launch that a pid means: of a member, of an ancestor of one root only, or a number inside a container.

    In a union of several hosts the pid carries the place of the one that is meant.
    """
    launches = list(launches)
    of = [one for one in launches if pid in one.members] or [one for one in launches if pid in one.wrappers]
    if of:
        return of[0]
    if pid in sample.processes:
        above = [one for one in launches if pid in ancestors(one.root, sample.processes)]
        return above[0] if len(above) == 1 else None
    inside = [
        one
        for one in launches
        if any(
            place_of(m) == place_of(pid) and own(pid) in sample.processes[m].nspid[1:]
            for m in one.members
            if m in sample.processes
        )
    ]
    return inside[0] if len(inside) == 1 else None


def unknown_launch(pid: int, sample: Sample) -> Launch | None:
    """A launch of an engine that hangdoc does not know: a process and all its descendants. None when it is gone."""
    if pid not in sample.processes:
        return None
    return _launch(pid, profiles()["unknown"], sample, _descendants(pid, _children(sample.processes)))
