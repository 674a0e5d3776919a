"""The pure parts of the state probes: they hold for any input, and for the shapes that kernels really write."""

from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.model.syscalls import NUMBERS
from hangdoc.probes import calls, environ, fds, futexes, kernelstacks, memory, processes, procfs, redact, threads
from hangdoc.probes.syscalls import NUMBER

STAT = b"42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 3 0 250 50 7 3 20 0 5 0 123456 1 2 " + b"0 " * 26 + b"256 "


def test_a_name_with_parentheses_does_not_shift_the_fields() -> None:
    stat = procfs.parse_stat(STAT)
    assert (stat.pid, stat.comm, stat.state, stat.ppid) == (42, "a) b (c", "S", 1)
    assert (stat.minflt, stat.majflt, stat.num_threads) == (100, 3, 5)
    assert (stat.utime, stat.stime, stat.start) == (250 / procfs.TICK, 50 / procfs.TICK, 123456 / procfs.TICK)


@given(st.binary(max_size=200))
def test_a_torn_stat_is_an_error_of_one_kind(raw: bytes) -> None:
    with contextlib.suppress(ValueError):
        procfs.parse_stat(raw)


@given(st.binary(max_size=300))
def test_text_is_always_json(raw: bytes) -> None:
    procfs.text(raw).encode("utf-8")


@pytest.mark.parametrize(
    ("raw", "area", "exe", "title"),
    [
        (b"python3\0-m\0engine\0", 18, "/usr/bin/python3.11", False),
        (b"sleep\0", 6, "/bin/sleep", False),
        (b"-bash\0", 6, "/bin/bash", False),
        (b"cmd\0\0", 5, "/bin/cmd", False),  # one empty argument
        (b"engine::worker_TP0\0\0\0\0\0", 23, "/usr/bin/python3.11", True),
        (b"nginx: worker process\0", 22, "/usr/sbin/nginx", True),  # fits exactly
        (b"a title that runs over into the environment", 20, "/usr/bin/python3", True),
        (b"", 0, None, False),
    ],
)
def test_titles_and_arguments_are_told_apart(raw: bytes, area: int, exe: str | None, title: bool) -> None:
    assert processes.is_title(raw, area, exe) is title


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1), min_size=2, max_size=6
    )
)
def test_arguments_of_two_words_or_more_are_never_a_title(words: list[str]) -> None:
    raw = b"".join(word.encode() + b"\0" for word in words)
    assert not processes.is_title(raw, len(raw), "/usr/bin/anything")


@pytest.mark.parametrize(
    ("raw", "overwritten"),
    [
        (b"A=1\0B=\0", False),
        (b"", False),
        (b"\0\0\0\0VLLM_X=1\0", True),
        (b"rest of a title\0\0\0\0", True),
        (b"A=1\0\0\0\0\0", True),
    ],
)
def test_an_overwritten_environment_is_recognised(raw: bytes, overwritten: bool) -> None:
    assert environ.overwritten(raw) is overwritten


def test_only_the_allow_list_leaves_the_host() -> None:
    raw = b"AWS_SECRET_ACCESS_KEY=x\0MY_VAR=1\0CUDA_VISIBLE_DEVICES=0,1\0no_proxy=*\0VLLM_API_KEY=abc\0NO_PROXYX=1\0"
    assert environ.parse(raw) == {"CUDA_VISIBLE_DEVICES": "0,1", "no_proxy": "*", "VLLM_API_KEY": "***"}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("token hf_AbCdEfGhIjKlMnOp used", "token hf_*** used"),
        ('{"token": "AbCdEfGhIj", "n": 1}', '{"token": "***", "n": 1}'),
        ("key sk-proj-abcdefghijkl", "key sk-***"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIA***"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer ***"),
        ("vllm serve m --api-key hunter22 --port 1", "vllm serve m --api-key *** --port 1"),
        ("--admin-api-key=hunter22", "--admin-api-key=***"),
        ("ServerArgs(api_key='hunter22', port=1)", "ServerArgs(api_key='***', port=1)"),
        ("{'api_key': ['hunter22'], 'model': 'm'}", "{'api_key': ['***'], 'model': 'm'}"),
        ("http://user:pass@proxy:3128/", "http://user:***@proxy:3128/"),
        ("HF_TOKEN=abcdef python", "HF_TOKEN=*** python"),
        ("https://x/y?X-Amz-Signature=deadbeef&z=1", "https://x/y?X-Amz-Signature=***&z=1"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJ", "eyJ***"),
    ],
)
def test_secrets_are_masked(text: str, masked: str) -> None:
    assert redact.mask(text) == masked
    assert redact.mask(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "Prefill batch, #new-seq: 1, #new-token: 6, #cached-token: 0, token usage: 0.00",
        "ServerArgs(api_key=None, hf_token=None, max_total_tokens=12345, bos_token='<s>')",
        "gen throughput (token/s): 123.45",
        '{"token": "hello", "id": 7}',
        "--tokenizer m --max-num-batched-tokens 8192 --ssl-keyfile /etc/key.pem",
        "http://10.0.0.1:8000/v1",
        "task-based scheduler, risk-free",
        "Loading safetensors checkpoint shards: 100% Completed | 4/4",
    ],
)
def test_what_is_no_secret_is_left_as_it_is(text: str) -> None:
    assert redact.mask(text) == text


@given(st.text())
def test_masking_twice_masks_once(text: str) -> None:
    once = redact.mask(text)
    assert redact.mask(once) == once


@pytest.mark.parametrize(
    "piece", ["token=", "api_key", "sk-", "://:", "eyJ.", "bearer ", "_TOKEN=", "Aa_-", "api-key ' ", "hf_"]
)
def test_masking_takes_linear_time(piece: str) -> None:
    """Four times the text takes about four times as long; a quadratic pattern would take sixteen."""

    def seconds(count: int) -> float:
        text = piece * count
        began = time.process_time()
        redact.mask(text)
        return time.process_time() - began

    assert seconds(40_000) < 10 * max(seconds(10_000), 0.01)


_CASES = st.lists(
    st.sampled_from(
        [
            "Api_Key",
            "SECRET",
            "password",
            "=",
            ": ",
            " ",
            "'",
            '"',
            "None",
            "AbCd1234",
            "token=",
            "Bearer ",
            "İ",
            "\u017f",
            "\u212a",
            "[",
        ]
    ),
    max_size=12,
).map("".join)


@given(_CASES)
def test_a_secret_is_masked_whatever_the_case_of_its_name(text: str) -> None:
    """What small letters find is what a pattern that ignores case finds, and all else stays as it was."""
    words = [rule for rule in redact._RULES if any(word in text.lower() for word in rule[0])]
    expected = text
    for _, pattern in words:
        expected = re.sub(pattern, r"\g<keep>***", expected)
    assert redact.mask(text) == expected


def test_values_after_a_secret_option_are_masked_up_to_the_next_option() -> None:
    given_words = ["serve", "--api-key", "one", "two", "--port", "8000", "--hf-token", "x", "--tokenizer", "m"]
    expected = ("serve", "--api-key", "***", "***", "--port", "8000", "--hf-token", "***", "--tokenizer", "m")
    assert redact.mask_arguments(given_words) == expected


def test_a_blocked_call_a_fault_and_a_running_thread_are_told_apart() -> None:
    line = b"202 0x7f00 0x189 0x0 0x0 0x0 0xffffffff 0x7ffe 0x7fab\n"
    assert calls.parse_syscall(line) == (202, (0x7F00, 0x189, 0, 0, 0, 0xFFFFFFFF), 0x7FFE, 0x7FAB)
    assert calls.parse_syscall(b"-1 0x10 0x20\n") == (-1, (), 0x10, 0x20)
    assert calls.parse_syscall(b"running\n") == (None, (), None, None)


def test_a_restarted_call_is_named_by_what_it_goes_on_with() -> None:
    if "restart_syscall" not in NUMBER:
        pytest.skip("no table for this machine")
    restart = NUMBER["restart_syscall"]
    assert threads.restarted(restart, (1,) * 6, "futex_do_wait") == NUMBER["futex"]
    assert threads.restarted(restart, (0x7FFE0000,) * 6, "do_sys_poll") == NUMBER.get("poll", NUMBER["ppoll"])
    assert threads.restarted(restart, (1, 0, 0x7FFE0000, 0, 0, 0), "hrtimer_nanosleep") == NUMBER["clock_nanosleep"]
    assert threads.restarted(restart, (0x7FFE0000,) * 6, "hrtimer_nanosleep") == NUMBER["nanosleep"]
    assert threads.restarted(restart, (1,) * 6, None) == restart
    assert threads.restarted(NUMBER["read"], (1,) * 6, "futex") == NUMBER["read"]


def test_the_tables_of_machines_name_the_same_waits() -> None:
    shared = set.intersection(*(set(table) for table in NUMBERS.values()))
    assert {
        "futex",
        "openat",
        "read",
        "write",
        "ppoll",
        "epoll_pwait",
        "wait4",
        "connect",
        "flock",
        "restart_syscall",
    } <= shared
    for table in NUMBERS.values():
        assert len(set(table.values())) == len(table)


MAPS = b"""\
55d0-55d1 r--p 00000000 08:01 11 /usr/bin/python
55d1-55d2 rw-p 00001000 08:01 11 /usr/bin/python
55d2-55d3 rw-p 00000000 00:00 0 [heap]
6000-6001 rw-s 00000000 00:01 7 /dev/shm/x (deleted)
6001-6002 rw-s 00000000 08:01 7 /data/mapped file
6002-6003 rw-s 00000000 195:0 7 /dev/nvidia0
7000-7001 rw-p 00000000 00:00 0
7001-7002 rw-p 00000000 00:00 0 [anon:arena]
7002-7003 ---p 00000000 00:00 0
7003-7004 rw-p 00000000 00:00 0 [stack]
"""


def test_only_memory_that_no_file_system_stands_behind_may_be_read() -> None:
    assert memory.areas(MAPS)[0] == [
        (0x55D1, 0x55D2, "copied"),
        (0x55D2, 0x55D3, "safe"),
        (0x6000, 0x6001, "safe"),
        (0x7000, 0x7001, "safe"),
        (0x7001, 0x7002, "safe"),
        (0x7003, 0x7004, "safe"),
    ]


def _words(*values: int, before: int = 0) -> futexes.Words:
    return futexes.Words(b"".join(value.to_bytes(4, "little") for value in values), before * 4)


@pytest.mark.parametrize(
    ("words", "kind", "owner"),
    [
        (_words(2, 0, 77, 1, 0), "mutex", 77),
        (_words(2, 0, 77, 1, 0x201), "mutex", 77),
        (_words(2, 0, 78, 1, 0), "mutex", None),  # not a thread of this process
        (_words(2, 0, 77, 0, 0), "unknown", None),  # nobody uses it
        (_words(2, 0, 77, 1, 0x7F12), "unknown", None),  # no kind of glibc's
        (_words(1, 0, 77, 1, 0), "unknown", None),  # changed since
        (_words(2), "unknown", None),  # the rest could not be read
    ],
)
def test_an_owner_is_claimed_only_when_all_agrees(words: futexes.Words, kind: str, owner: int | None) -> None:
    assert futexes.classify(0x80, 2, words, 1, {77: 77}) == (kind, owner)


@given(st.binary(min_size=48, max_size=48), st.integers(0, 0x1FF), st.integers(0, 0xFFFFFFFF))
def test_an_owner_is_always_a_thread_of_the_process(raw: bytes, operation: int, value: int) -> None:
    owner = futexes.classify(operation, value, futexes.Words(raw, 24), 1, {5: 5})[1]
    assert owner in (None, 5)


def test_lengths_are_no_deadlines() -> None:
    args = (0, 0, 0, 0x7FFE, 0, 0)
    assert calls.deadline_argument("futex", (0, 0x80, 0, 0x7FFE, 0, 0)) is None
    assert calls.deadline_argument("futex", (0, 0x89, 0, 0x7FFE, 0, 0)) == (0x7FFE, 1)
    assert calls.deadline_argument("futex", (0, 0x189, 0, 0x7FFE, 0, 0)) == (0x7FFE, 0)
    assert calls.deadline_argument("futex", (0, 0x189, 0, 0, 0, 0)) is None
    assert calls.deadline_argument("clock_nanosleep", (1, 0, 0x7FFE, 0, 0, 0)) is None
    assert calls.deadline_argument("clock_nanosleep", (1, 1, 0x7FFE, 0, 0, 0)) == (0x7FFE, 1)
    assert calls.deadline_argument("ppoll", args) is None
    assert calls.monotonic((5).to_bytes(8, "little") + (10**9).to_bytes(8, "little"), 1) is None
    assert calls.monotonic((5).to_bytes(8, "little") + (5 * 10**8).to_bytes(8, "little"), 1) == 5.5


def test_links_of_descriptors_have_kinds() -> None:
    kinds = {
        "pipe:[12]": ("pipe", 12),
        "socket:[34]": ("socket", 34),
        "anon_inode:[eventfd]": ("eventfd", None),
        "anon_inode:[eventpoll]": ("epoll", None),
        "anon_inode:inotify": ("inotify", None),
        "/dev/pts/3": ("terminal", None),
        "/dev/nvidia0": ("device", None),
        "/dev/shm/x": ("file", None),
        "/memfd:x (deleted)": ("memfd", None),
        "/tmp/pipe:[12]": ("file", None),
        "anon_inode:[io_uring]": ("other", None),
    }
    assert {target: fds.kind_of(target) for target in kinds} == kinds


def test_kernel_stacks() -> None:
    content = """\
[<0>] rwsem_down_read_slowpath+0x1a3/0x4f0
[<0>] os_acquire_rwlock_read+0x2c/0x40 [nvidia]
[<ffffffffc0a1b2c3>] nvidia_unlocked_ioctl+0x21/0x30 [nvidia]
[<0>] do_syscall_64+0x5c/0x90
[<0>] entry_SYSCALL_64_after_hwframe+0x6e/0xd8
broken line
"""
    expected = ("rwsem_down_read_slowpath", "os_acquire_rwlock_read [nvidia]", "nvidia_unlocked_ioctl [nvidia]")
    assert kernelstacks.parse(content) == expected
    assert kernelstacks.parse("") == ()
