"""What strace prints, counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hangdoc.model.deep import TracedCall
from hangdoc.model.sample import Fd
from hangdoc.probes import strace

EVENTFD = "anon_inode:[eventfd]"
# As strace 6.1 printed it, two threads of which one writes and one fails to.
LINES = """\
[pid 25183] clock_nanosleep(0x1, 0x1, 0x7fd75c720c40, 0 <unfinished ...>
[pid 25187] clock_nanosleep(0x1, 0x1, 0x7fd75bf1fb00, 0 <unfinished ...>
[pid 25181] <... clock_nanosleep resumed>) = 0
[pid 25181] write(0x3, 0x7fd75c810410, 0x8) = 0x8
[pid 25187] <... clock_nanosleep resumed>) = 0
[pid 25187] write(0x3, 0x7fd75c99fe90, 0x4 <unfinished ...>
[pid 25181] write(0x3, 0x7fd75c810410, 0x8) = 0x8
[pid 25187] <... write resumed>)        = -1 EINVAL (Invalid argument)
[pid 25181] clock_nanosleep(0x1, 0x1, 0x7fff5290ef00, 0 <unfinished ...>
strace: Process 25183 detached
[pid 25181] futex(0x7f00, 0x80, 0x2, 0, 0, 0) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)
[pid 25181] wri"""


def test_calls_are_counted_by_thread_descriptor_size_and_error() -> None:
    trace = strace.summarise(LINES, 25181, 2.0, {3: Fd(3, "eventfd", EVENTFD)})
    assert set(trace.calls) == {
        TracedCall(25181, "write", 2, 3, EVENTFD, 8),
        TracedCall(25187, "write", 1, 3, EVENTFD, 4, "EINVAL"),
        TracedCall(25181, "clock_nanosleep", 1),
        TracedCall(25187, "clock_nanosleep", 1),
    }
    assert trace.calls[0].count == 2
    assert not trace.cut


def test_lines_of_a_single_thread_have_no_number() -> None:
    assert strace.summarise("read(0x5, 0x7ffe, 0x1000) = 0\n", 7, 1.0, {}).calls == (
        TracedCall(7, "read", 1, 5, "", 4096),
    )


def test_many_kinds_of_calls_are_cut() -> None:
    trace = strace.summarise("".join(f"read({at:#x}, 0, 0x8) = 0x8\n" for at in range(100)), 7, 1.0, {})
    assert (len(trace.calls), trace.cut) == (32, True)


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    strace.summarise(text, 1, 1.0, {})


@given(st.lists(st.sampled_from(LINES.splitlines())))
def test_lines_in_any_order_never_count_more_than_there_are(lines: list[str]) -> None:
    trace = strace.summarise("\n".join(lines), 25181, 1.0, {})
    assert sum(one.count for one in trace.calls) <= len(lines)
