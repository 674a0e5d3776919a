"""What members have on file systems: where, how full, which weights, what is being downloaded, which lock files.

Everything here may block on a local disk that is sick, so it runs in a disposable child, and each part is given as soon
as it is there. Remote file systems that do not answer are not touched (`inside.py`).
"""

from __future__ import annotations

import os
import posixpath
import pwd
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from ..model.frozen import dataclass, replace
from ..model.sample import Fd, Process, Unseen
from ..model.storage import Checkpoint, LockFile, Partial, Place, WeightFile
from . import cachewalk, checkpoints, fds, filelocks, inside, packages, whereabouts
from .mounts import Mount
from .procfs import Folder, parse_status
from .reading import bounded, reason
from .redact import mask

PLACES = 256
OPEN_FILES = 4096  # descriptors of one member looked at
WEIGHT_FILES = 512
MODELS = ("model", "tokenizer", "draft-model")


@dataclass(frozen=True)
class Want:
    """A place that members of one view name."""

    role: str
    path: str
    source: str
    pids: Tuple[int, ...]


Open = Dict[str, List[Tuple[int, Fd]]]  # path -> members that have it open, by which descriptor


def read(root: str, members: Mapping[int, Process], unseen: List[Unseen]) -> Iterator[Tuple[str, object]]:
    """Fields of `Storage`, each as soon as it is known. What could not be seen is appended to `unseen`."""
    views = []
    for pids in _by_namespace(members).values():
        view = inside.of(root, pids)
        if view is None:
            unseen.append(Unseen("storage", "denied", "the files of these processes may not be reached", pids[0]))
            continue
        views.append((view, _wanted(view, {pid: members[pid] for pid in pids})))
    opened = open_files(root, sorted(members))
    asked = [(view, one) for view, wanted in views for one in wanted if one.path.startswith("/")][:PLACES]
    places = [(view, place(view, one, unseen)) for view, one in asked]
    places = [(view, one) for view, one in places if one.exists is not False or one.source != "default"]
    yield "places", [one for _, one in places]
    weights = list(_checkpoints(views, places, unseen))
    yield "checkpoints", [one for _, one in weights]
    for view, one in weights:
        if not one.name.startswith("/"):  # a hub's name, or a path below a working directory
            places.append((view, place(view, Want("model", one.path, one.name, one.pids), unseen)))
    known = [(view, one) for view, one in places if one.answers and one.real]
    budget = cachewalk.Budget()
    models = {id(view): [whereabouts.hub_folder(one.path) or "" for one in wanted] for view, wanted in views}
    walks = [(view, one, _walk(view, one, models[id(view)], budget)) for view, one in known]
    found = [(view, one, walked) for view, one, walked in walks if walked is not None]
    partials: Dict[str, Partial] = {
        path: cachewalk.partial(path, seen, tuple(sorted({pid for pid, _ in opened.get(path, ())})))
        for _, _, walked in found
        for path, seen in walked.partials
    }
    rows: List[Partial] = sorted(partials.values(), key=lambda one: -one.changed)
    yield "partials", _bounded(rows, unseen)
    viewed = {pid: view for view, wanted in views for one in wanted for pid in one.pids}
    yield "weights", weight_files(opened, viewed)
    counted = {(one.role, one.path): walked for _, one, walked in found if one.role in cachewalk.COUNTED}
    yield "places", [_counted(one, counted.get((one.role, one.path))) for _, one in places]
    elsewhere = _open_locks(opened, viewed)
    yield "lock_files", _bounded(_locks(root, members, found, elsewhere, opened), unseen)


def _by_namespace(members: Mapping[int, Process]) -> Dict[Optional[int], List[int]]:
    """Members by mount namespace, the oldest first. Whose namespace may not be read, of him no file may be reached."""
    found: Dict[Optional[int], List[int]] = {}
    for pid, one in sorted(members.items()):
        if one.state not in "ZX":
            found.setdefault(one.mnt_ns, []).append(pid)
    return found


def _wanted(view: inside.Inside, members: Mapping[int, Process]) -> List[Want]:
    """Places that these members name, each once."""
    parents = {pid: one.ppid for pid, one in members.items()}
    known = {pid: one.env for pid, one in members.items() if one.env is not None}
    pids: Dict[Tuple[str, str], Set[int]] = {}
    sources: Dict[Tuple[str, str], str] = {}
    sites: Dict[str, List[str]] = {}
    for pid, one in members.items():
        named = [] if one.overwritten else whereabouts.arguments(one.cmdline or ())
        env = whereabouts.environment(pid, parents, known)
        if env:
            named += whereabouts.caches(env, _user(view.root, pid))
        for program in packages.programs(one):
            if program not in sites:
                sites[program] = _sites(view, program)
            for site in sites[program]:
                named.append(whereabouts.Named("site-packages", site, program))
                # AITER compiles beside its code where it may write
                named.append(whereabouts.Named("aiter", f"{site}/aiter/jit", "default"))
        for name in named:
            key = name.role, name.path
            pids.setdefault(key, set()).add(pid)
            sources.setdefault(key, name.source)
    return [Want(role, path, sources[role, path], tuple(sorted(who))) for (role, path), who in pids.items()]


def _sites(view: inside.Inside, program: str) -> List[str]:
    """site-packages of the environment that a program lies in; none where its file system does not answer."""
    library = posixpath.join(posixpath.dirname(posixpath.dirname(posixpath.normpath(program))), "lib")
    try:
        real = view.real(library)
        names = sorted(one for one in os.listdir(view.outer(real)) if one.startswith("python3"))
    except OSError:
        return []
    return [f"{library}/{name}/site-packages" for name in names[:4]]


def _user(root: str, pid: int) -> str:
    """Login name of a process's user as the C library would tell it here; "" when it has none."""
    try:
        with Folder(root, pid) as folder:
            uid = parse_status(folder.read("status")).get("Uid", "").split()
        return pwd.getpwuid(int(uid[1])).pw_name if uid else ""
    except (OSError, KeyError, ValueError):
        return ""


def open_files(root: str, pids: List[int]) -> Open:
    """Files that members have open. Those of processes that may not be read are left out: probe `fds` says so."""
    found: Open = {}
    for pid in pids:
        for one in fds.read(root, pid, [], OPEN_FILES, files=True).values():
            if one.kind == "file":
                found.setdefault(one.target, []).append((pid, one))
    return found


def place(view: inside.Inside, want: Want, unseen: List[Unseen]) -> Place:
    """One place with its file system. Where that does not answer, only what mountinfo tells."""
    path = want.path
    bare = Place(want.role, path, want.source, want.pids)
    if not path.startswith("/"):
        return bare  # a hub's name, or relative to a folder that may be looked at later
    exists, real = True, path
    try:
        try:
            real = view.real(path)
        except (FileNotFoundError, NotADirectoryError):
            exists, real = False, view.nearest(path)
        view.check(real)
        seen = os.statvfs(view.outer(real))
    except OSError as error:
        mount = view.mount(path if isinstance(error, inside.Untouched) else real)
        unseen.append(Unseen("storage", reason(error), f"{want.role} {path}: {error.strerror}", want.pids[0]))
        lost = isinstance(error, inside.Untouched) and mount is not None and mount.device in view.silent
        return replace(_mounted(bare, mount), answers=False if lost else None)
    return replace(
        _mounted(bare, view.mount(real)),
        real=real,
        exists=exists,
        answers=True,
        total=bounded(seen.f_frsize * seen.f_blocks),
        free=bounded(seen.f_frsize * seen.f_bavail),
        inodes=bounded(seen.f_files),
        inodes_free=bounded(seen.f_favail),
    )


def _mounted(one: Place, mount: Optional[Mount]) -> Place:
    if mount is None:
        return one
    return replace(
        one,
        mount=mount.point,
        kind=mount.kind,
        device=mask(mount.source)[:256],
        remote=mount.remote,
        read_only="ro" in mount.flags.split(",") or "ro" in mount.options.split(","),
    )


def _checkpoints(
    views: List[Tuple[inside.Inside, List[Want]]], places: List[Tuple[inside.Inside, Place]], unseen: List[Unseen]
) -> Iterator[Tuple[inside.Inside, Checkpoint]]:
    for view, wanted in views:
        hubs = [one.real for at, one in places if at is view and one.role in cachewalk.HUBS and one.exists and one.real]
        done = set()
        for want in wanted:
            if want.role not in MODELS or want.path in done:
                continue
            done.add(want.path)
            try:
                folder = checkpoints.folder_of(view, want.path, _working(view, want.pids[0]), hubs)
                if folder is not None:
                    one = checkpoints.read(view, folder, want.path, want.pids)
                    if one is not None:
                        yield view, one
            except OSError as error:
                detail = f"weights of {want.path}: {error.strerror}"
                unseen.append(Unseen("storage", reason(error), detail, want.pids[0]))


def _working(view: inside.Inside, pid: int) -> Optional[str]:
    """Working directory of a member, by the text of its link."""
    try:
        return os.readlink(f"{view.root}/{pid}/cwd")
    except OSError:
        return None


def _walk(view: inside.Inside, one: Place, models: List[str], budget: cachewalk.Budget) -> Optional[cachewalk.Found]:
    """What lies in a place; None for one that is not walked, or whose turn did not come."""
    if not one.exists or one.real is None or budget.spent:
        return None
    if one.role in cachewalk.HUBS:
        return cachewalk.hub(view, one.real, models, budget)
    if one.role in cachewalk.DEPTH:
        return cachewalk.walk(view, one.real, cachewalk.DEPTH[one.role], budget)
    return None


def _counted(one: Place, walked: Optional[cachewalk.Found]) -> Place:
    if walked is None or not one.exists:
        return one
    return replace(one, files=walked.files, newest=walked.newest, cut=walked.cut)


def weight_files(opened: Open, views: Mapping[int, inside.Inside]) -> List[WeightFile]:
    """Weight files that members have open, with the place that they have read to."""
    found = []
    for path, users in sorted(opened.items()):
        if not checkpoints.WEIGHTS.search(path):
            continue
        found += [WeightFile(pid, path, one.pos, _size(views.get(pid), path)) for pid, one in users]
    return found[:WEIGHT_FILES]


def _size(view: Optional[inside.Inside], path: str) -> Optional[int]:
    if view is None:
        return None
    try:
        return os.lstat(view.outer(view.real(path))).st_size
    except OSError:
        return None


def _open_locks(opened: Open, views: Mapping[int, inside.Inside]) -> List[Tuple[inside.Inside, str, os.stat_result]]:
    """Files that members have open and that are called as locks are, wherever they lie."""
    found = []
    for path, users in sorted(opened.items()):
        view = next((views[pid] for pid, _ in users if pid in views), None)
        if view is None or not cachewalk.LOCK.match(path.rpartition("/")[2]):
            continue
        try:
            found.append((view, path, os.lstat(view.outer(view.real(path)))))
        except OSError:
            continue
    return found


def _locks(
    root: str,
    members: Mapping[int, Process],
    found: List[Tuple[inside.Inside, Place, cachewalk.Found]],
    elsewhere: List[Tuple[inside.Inside, str, os.stat_result]],
    opened: Open,
) -> List[LockFile]:
    ours = os.readlink("/proc/self/ns/pid")
    alike = all(one.pid_ns is None or f"pid:[{one.pid_ns}]" == ours for one in members.values())
    host = os.uname().nodename if alike else None
    kernel: Optional[Dict[int, List[filelocks.Line]]] = {} if alike else None
    if kernel is not None and (elsewhere or any(walked.locks for _, _, walked in found)):
        try:
            for line in filelocks.parse(filelocks.read_lines(root)):
                kernel.setdefault(line.inode, []).append(line)
        except OSError:
            kernel = None
    rows: Dict[str, LockFile] = {}
    known = [(view, one.role, path, seen) for view, one, walked in found for path, seen in walked.locks]
    for view, role, path, seen in [*known, *((view, "", path, seen) for view, path, seen in elsewhere)]:
        if path not in rows:
            users = tuple(sorted({pid for pid, _ in opened.get(path, ())}))
            rows[path] = cachewalk.lock_file(view, role, path, seen, kernel, users, host)
    return sorted(rows.values(), key=lambda one: (not one.locked, not one.pids, -one.changed))


def _bounded(rows: Sequence[object], unseen: List[Unseen]) -> Sequence[object]:
    if len(rows) > cachewalk.ROWS:
        unseen.append(Unseen("storage", "skipped", f"{len(rows)} files, the first {cachewalk.ROWS} are given"))
    return rows[: cachewalk.ROWS]
