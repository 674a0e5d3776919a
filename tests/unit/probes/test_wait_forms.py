"""The pure parts of reading who holds what: they hold for any input."""

from __future__ import annotations

import dis
import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.model.sample import Fd, FutexWait, Thread
from hangdoc.model.syscalls import NUMBERS
from hangdoc.probes import filelocks, futexes, gil, memory, pipes, pycode, pylayouts, pylocks, pythreads, rings
from hangdoc.probes import syscalls as sc

aware = pytest.mark.skipif(sys.version_info[:2] not in ((3, 11), (3, 12), (3, 13)), reason="a Python with this layout")


@given(st.binary(max_size=200))
def test_a_torn_exception_table_ends_early(raw: bytes) -> None:
    for row in pycode.table(raw):
        assert row.start <= row.end
        assert row.depth >= 0


@given(st.binary(max_size=200), st.integers(0, 1000), st.booleans())
def test_handlers_are_followed_to_an_end(raw: bytes, at: int, always: bool) -> None:
    assert all(slot >= 0 for slot in pycode.with_slots(pycode.table(raw), at, lambda _: always))


def _nested(lock, other):  # type: ignore[no-untyped-def]
    with lock:
        for one in other:
            with one:
                here()  # type: ignore[name-defined]  # noqa: F821
            between()  # type: ignore[name-defined]  # noqa: F821
    after()  # type: ignore[name-defined]  # noqa: F821


@aware
def test_the_exits_around_a_call_are_those_of_the_blocks_that_were_entered() -> None:
    """`with` lies below the loop's iterator, which has a slot of its own."""
    code = _nested.__code__
    raw = code.co_code
    layout = pylayouts.LAYOUTS[sys.version_info.minor]

    def is_with(target: int) -> bool:
        return (raw[2 * target], raw[2 * target + 2]) == layout.with_handler

    rows = pycode.table(getattr(code, "co_exceptiontable", b""))
    names = {}
    for one in dis.get_instructions(code):
        if one.opname == "LOAD_GLOBAL":
            names[one.argval] = one.offset // 2
    found = {name: pycode.with_slots(rows, at, is_with) for name, at in names.items()}
    assert found == {"here": (2, 0), "between": (0,), "after": ()}


def test_layouts_name_the_handler_of_with_of_their_own_version() -> None:
    layout = pylayouts.LAYOUTS.get(sys.version_info.minor)
    if layout is None:
        pytest.skip("a Python without a layout")
    assert layout.with_handler == (dis.opmap["PUSH_EXC_INFO"], dis.opmap["WITH_EXCEPT_START"])
    assert layout.number == layout.thread + 8


@pytest.mark.parametrize(
    ("names", "minor"),
    [
        (("/usr/bin/python3.12",), 12),
        (("/usr/local/bin/python3.11", "/usr/local/lib/libpython3.11.so.1.0"), 11),
        (("/opt/python/bin/python3.13 (deleted)",), 13),
        (("/usr/bin/python3.13t",), None),  # free-threaded: another thing
        (("/usr/bin/python3.11", "/x/libpython3.12.so.1.0"), None),  # two of them
        (("/lib/python3.11/site-packages/x.so", "/lib/libpython3.so"), None),
        (("/usr/bin/blender",), None),
    ],
)
def test_the_version_is_that_of_the_mapped_program(names: tuple[str, ...], minor: int | None) -> None:
    maps = "".join(f"1000-2000 r-xp 00000000 08:01 7    {name}\n" for name in names).encode()
    assert pythreads.minor_version(maps) == minor


class Garbage:
    """Memory in which every pointer leads to more of the same bytes."""

    def __init__(self, raw: bytes, maps: bytes = b"") -> None:
        self.raw = raw
        self.maps = maps

    def read(self, address: int, size: int) -> bytes | None:
        place = address % len(self.raw)
        return None if address % 5 == 0 else (self.raw * (size // len(self.raw) + 2))[place : place + size]

    follow = read

    def room(self, _: int) -> int:
        return 1 << 20

    def kind(self, address: int, _: int) -> str | None:
        return "safe" if address else None


_words_of_threads = st.lists(
    st.one_of(st.sampled_from((7, 8, 64, 128, 4096, 4160)), st.integers(0, 2**64 - 1)), min_size=4, max_size=40
)


@given(_words_of_threads, st.sampled_from((11, 12, 13)))
def test_a_walk_through_garbage_ends_and_claims_no_thread_of_others(words: list[int], minor: int) -> None:
    raw = struct.pack(f"={len(words)}Q", *words)
    maps = f"1000-2000 r-xp 00000000 08:01 7 /usr/bin/python3.{minor}\n".encode()
    garbage = Garbage(raw, maps)
    waiting = {
        one: Thread(one, "S", sp=64, futex=FutexWait(words[0], "semaphore", word=0, shared=False)) for one in (7, 8)
    }
    found = pylocks.owners(garbage, waiting, {7: 7, 8: 8})  # type: ignore[arg-type]
    assert all(one.owner in (None, 7, 8) for one in found.values())


@given(st.binary(max_size=64))
def test_bytes_that_are_no_gil_have_no_holder(raw: bytes) -> None:
    state = gil.parse(raw)
    assert state is None or (len(raw) >= 20 and struct.unpack_from("=i", raw, 16)[0] == 1)


def test_a_gil_is_believed_only_when_held_and_with_a_known_interval() -> None:
    assert gil.parse(struct.pack("=QQi", 5000, 0x7000, 1)) == 0x7000
    assert gil.parse(struct.pack("=QQi", 5000, 0x7000, 0)) is None
    assert gil.parse(struct.pack("=QQi", 50, 0x7000, 1)) is None
    assert gil.parse(struct.pack("=QQi", 2_000_000, 0x7000, 1)) is None


def test_both_words_of_the_condition_variable_lead_to_one_gil() -> None:
    number = sc.NUMBER.get("futex", 1)
    timed, untimed = 0x7FFE0000, 0
    table = {
        1: Thread(1, "S", syscall=number, args=(0x1048, 0x89, 0, timed, 0, 0)),
        2: Thread(2, "S", syscall=number, args=(0x104C, 0x89, 0, timed, 0, 0)),
        3: Thread(3, "S", syscall=number, args=(0x1048, 0x89, 0, untimed, 0, 0)),
        4: Thread(4, "S", syscall=number, args=(0x1048, 0x189, 0, timed, 0, 0)),
    }
    if "futex" in sc.NUMBER:
        assert gil.waiters(table) == {0x1000: [1, 2]}


def test_a_shared_mapping_has_the_same_name_in_every_process() -> None:
    maps = (
        b"6000-7000 rw-s 00002000 00:01 7 /dev/shm/x (deleted)\n7000-8000 rw-s 00000000 195:0 9 /dev/nvidia0\n"
        b"8000-9000 rw-s 00000000 08:01 5 /data/mapped file\n9000-a000 rw-p 00000000 08:01 6 /usr/bin/python\n"
    )
    assert memory.areas(maps)[1] == [(0x6000, 0x7000, 0x2000, "00:01:7"), (0x8000, 0x9000, 0, "08:01:5")]


MUTEX = {  # recorded: a normal mutex held by thread 4711 with one waiter, a robust and a PI one, as glibc lays them out
    "normal": (0x80, 2, "020000000000000067120000010000000000000000000000", ("mutex", 4711)),
    "robust": (0x00, 0x80001267, "671200800000000067120000010000001000000000000000", ("robust-mutex", 4711)),
    "pi": (0x86, 0, "671200800000000067120000010000002000000000000000", ("pi-mutex", 4711)),
}


@pytest.mark.parametrize("name", MUTEX)
def test_recorded_mutexes_are_read_alike_on_both_machines(name: str) -> None:
    """Layouts and operations are those of x86-64 and of aarch64, which is untested on hardware."""
    operation, value, raw, expected = MUTEX[name]
    words = futexes.Words(bytes.fromhex(raw), 0)
    assert futexes.judge(operation, value, words, 1, {4711: 4711}) == expected
    assert futexes.judge(operation, value, words, 1, {}) == expected  # another process's thread, or one that ended
    assert futexes.classify(operation, value, words, 1, {}) == (expected[0], None)
    for machine in ("x86_64", "aarch64"):
        assert {"futex", "flock", "fcntl", "read", "write"} <= set(NUMBERS[machine])
        assert machine in pylayouts.PTHREAD_TID


LOCKS = """\
1: POSIX  ADVISORY  WRITE 40 fe:00:7 10 14
1: -> POSIX  ADVISORY  WRITE 41 fe:00:7 10 14
2: FLOCK  ADVISORY  WRITE 50 fe:00:8 0 EOF
2: -> FLOCK  ADVISORY  WRITE 51 fe:00:8 0 EOF
2:  -> FLOCK  ADVISORY  WRITE 52 fe:00:8 0 EOF
3: OFDLCK ADVISORY  READ  -1 00:2d:9 0 EOF
4: LEASE  ACTIVE    READ  60 fe:00:10 0 EOF
5: FLOCK  ADVISORY  WRITE 70 fe:00:11 0 EOF
""".splitlines()


def test_locks_join_their_waiters_and_other_files_are_left_out() -> None:
    paths = {7: "/a", 8: "/b", 9: "/c", 10: "/d"}
    held = {99: ["9: FLOCK  ADVISORY  WRITE 50 fe:00:8 0 EOF"], 98: ["1: OFDLCK ADVISORY  READ  -1 00:2d:9 0 EOF"]}
    found, kept = filelocks.build(LOCKS, paths, held, {53: {8}, 54: {7}})
    assert [(one.path, one.kind, one.mode, one.holders, one.owner, one.waiters) for one in found] == [
        ("/c", "OFDLCK", "READ", (98,), None, ()),
        ("/a", "POSIX", "WRITE", (), 40, (41,)),
        ("/b", "FLOCK", "WRITE", (99,), 50, (51, 52, 53)),
    ]
    assert len(kept) == 6
    assert [one.path for one in filelocks.incomplete(found)] == ["/a"]


def test_a_lock_that_only_its_holder_shows_is_known_all_the_same() -> None:
    """In another pid namespace `/proc/locks` leaves out both lines."""
    held = {5: ["1: FLOCK  ADVISORY  WRITE 0 fe:00:8 0 EOF"]}
    found, _ = filelocks.build([], {8: "/b"}, held, {6: {8}})
    assert [(one.holders, one.owner, one.waiters) for one in found] == [((5,), None, (6,))]


@given(st.lists(st.text()))
def test_lines_of_another_form_are_no_locks(lines: list[str]) -> None:
    assert isinstance(filelocks.build(lines, {1: "/a"}, {1: lines}, {})[0], list)


def test_only_calls_that_wait_for_a_lock_name_a_descriptor() -> None:
    if not sc.NUMBER:
        pytest.skip("no table for this machine")

    def waits(call: str, *args: int) -> int | None:
        return filelocks.descriptor_waited_for(Thread(1, "S", syscall=sc.NUMBER[call], args=args))

    assert waits("flock", 5, 2) == 5
    assert waits("fcntl", 6, 7) == 6
    assert waits("fcntl", 6, 38) == 6
    assert waits("fcntl", 6, 6) is None
    assert waits("read", 5) is None


@given(st.sampled_from(rings.FORMS), st.integers(1, 64), st.integers(1, 1024))
def test_the_size_of_a_ring_gives_its_chunks_and_readers_back(form: rings.Form, granules: int, readers: int) -> None:
    chunk = granules * form.granule
    assert rings.fit((chunk + 1 + readers) * form.chunks, form) == (chunk, readers)


@given(st.binary(max_size=100), st.integers(1, 8))
def test_flags_are_counted_or_refused(raw: bytes, readers: int) -> None:
    counts = rings.unread(raw, readers)
    assert counts is None or (len(counts) == readers and max(counts) <= len(raw) // (1 + readers))


def test_only_pipes_that_somebody_is_blocked_in_are_asked() -> None:
    if not sc.NUMBER:
        pytest.skip("no table for this machine")
    table = {
        number: Fd(number, kind, "") for number, kind in enumerate(("pipe", "pipe", "file", "pipe", "file", "socket"))
    }
    threads = {
        1: Thread(1, "S", wchan="anon_pipe_read", syscall=sc.NUMBER["read"], args=(3, 0, 1)),
        2: Thread(2, "S", wchan="anon_pipe_write", syscall=sc.NUMBER["write"], args=(4, 0, 1)),
        3: Thread(3, "S", wchan="sock_wait", syscall=sc.NUMBER["read"], args=(5, 0, 1)),
        4: Thread(4, "S", wchan="do_poll", syscall=sc.NUMBER["ppoll"], args=(0, 0, 1)),
    }
    assert pipes.of_interest(threads, table) == {1: "pipe", 3: "pipe", 4: "fifo"}
