"""What a launch has on file systems: folders it depends on, checkpoints, downloads under way, lock files.

Part of a sample (probe `storage`, asked once a look or every 30 s). Paths are as the members see them, links not
followed unless said so. `None` always means "not seen"; instants are wall clock seconds since the epoch, as the file
system that holds the file tells them. Standard library only and Python 3.8.
"""

from typing import Optional, Tuple

from .frozen import dataclass

# Roles of places where compilers keep what they made.
COMPILED = frozenset((
    "vllm-cache", "sglang-cache", "torch-extensions", "inductor", "triton", "flashinfer", "deep-gemm", "aiter", "cuda-cache",
    "tilelang",
))  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A folder (or file) that members depend on, and the file system that it lies on.

    Cache folders that no variable names and that are not there are left out.
    """

    # model tokenizer draft-model download-dir hub xet vllm-cache sglang-cache torch-extensions inductor triton flashinfer
    # deep-gemm aiter cuda-cache modelscope tilelang ray temporary home shm site-packages
    role: str
    path: str
    source: str = ""  # the option or variable that names it; "default" when none does
    pids: Tuple[int, ...] = ()  # members that it holds for
    real: Optional[str] = None  # the same with all links followed
    exists: Optional[bool] = None  # when False, the figures are those of the nearest folder above that exists
    mount: Optional[str] = None  # mount point
    kind: Optional[str] = None  # type of the file system: ext4 xfs overlay tmpfs nfs4 lustre fuse.juicefs …
    device: str = ""  # what is mounted: "/dev/nvme0n1p1", "nas:/export"
    remote: Optional[bool] = None  # served by another machine or by a program
    read_only: Optional[bool] = None
    answers: Optional[bool] = None  # False: its file system did not answer within 0.5 s and nothing on it was touched
    total: Optional[int] = None  # bytes
    free: Optional[int] = None  # bytes that an ordinary user may still fill
    inodes: Optional[int] = None  # 0 where the file system has no fixed number
    inodes_free: Optional[int] = None
    # Caches of compiled things, and /dev/shm: what a bounded walk counted. Growth of either is a compiler's progress. None
    # where time for all walks was over.
    files: Optional[int] = None
    newest: Optional[float] = None  # last change of the youngest file
    cut: bool = False  # the walk ended at its bound (entries, depth or time): there are more files


@dataclass(frozen=True)
class Checkpoint:
    """The weight files in a model folder, against what its index says should be there."""

    path: str  # the folder; of a hub's name the snapshot that a launch takes
    name: str = ""  # as the launch names it: "org/model", or the path
    pids: Tuple[int, ...] = ()
    format: str = ""  # safetensors bin pt gguf: what most of the files are; "" when there are none
    files: int = 0  # weight files that are there, whole or not
    bytes: int = 0  # their sizes together (links followed)
    index: Optional[str] = None  # name of the index file that was read
    expected_files: Optional[int] = None  # files that the index names
    expected_bytes: Optional[int] = None  # `metadata.total_size`: bytes of the tensors, without the files' headers
    missing: int = 0  # files that the index names and that are not there, or whose link leads nowhere
    missing_names: Tuple[str, ...] = ()  # the first 16 of them
    newest: Optional[float] = None  # last change of the youngest weight file
    sizes: Tuple[
        int, ...
    ] = ()  # of each weight file, in the order of their names; none where one is missing, or of very many


@dataclass(frozen=True)
class Partial:
    """A file that is being downloaded (`*.incomplete` of huggingface_hub, `.temp` of modelscope), or was left so."""

    path: str
    bytes: int  # its size so far
    allocated: int  # bytes that the disk holds of it; less than `bytes` for a file that is filled at several places
    changed: float  # last change
    repository: str = ""  # "org/model" where the path tells
    pids: Tuple[int, ...] = ()  # members that have it open; empty also when their descriptors may not be read


@dataclass(frozen=True)
class WeightFile:
    """A weight file that a member has open, and how far it has read. What is mapped is in `Process.weights`."""

    pid: int
    path: str
    position: Optional[int] = None  # of the open file, bytes
    size: Optional[int] = None  # bytes


@dataclass(frozen=True)
class LockFile:
    """A lock file in a cache folder of the launch, locked or only left there.

    A file that is locked by flock or fcntl stands in `/proc/locks`; a *soft* lock or a baton (torch's `lock`, AITER's
    `lock_…`) locks by being there, and nobody but its writer knows whether it is meant. huggingface_hub leaves the
    files of its flocks behind: those are no sign of anything.
    """

    path: str
    role: str  # of the place that it lies in; "" elsewhere: a member has it open
    size: int
    changed: float  # last change
    inode: int
    locked: Optional[bool] = None  # a kernel lock is on it; None when `/proc/locks` cannot tell (another pid namespace)
    holders: Tuple[int, ...] = ()  # pids that `/proc/locks` names for it
    pids: Tuple[int, ...] = ()  # members that have it open; empty also when their descriptors may not be read
    # What the file itself says of its owner (filelock's soft locks: pid and host name, each on a line).
    owner: Optional[int] = None
    owner_host: str = ""
    owner_alive: Optional[bool] = None  # whether such a process is on this host; None: another host, or no number


@dataclass(frozen=True)
class Storage:
    """All of it. A field that is None was not reached: `Sample.unseen` says why."""

    places: Optional[Tuple[Place, ...]] = None
    checkpoints: Optional[Tuple[Checkpoint, ...]] = None
    partials: Optional[Tuple[Partial, ...]] = None
    weights: Optional[Tuple[WeightFile, ...]] = None
    lock_files: Optional[Tuple[LockFile, ...]] = None
