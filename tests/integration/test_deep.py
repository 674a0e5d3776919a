"""--deep and quick looks on real processes: what they see, when they are refused, and that their targets are as before."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

from attaching import ARCH, ask, child, needs_compiler, needs_pyspy, needs_strace
from process_of import state, until

from hangdoc.agent import guardian, tick, wire
from hangdoc.analysis import closer
from hangdoc.demo.stage import Stage
from hangdoc.model.plain import to_plain
from hangdoc.model.sample import Process, Stack, Unseen
from hangdoc.probes import glance

# libc's own, so that it runs on every Python
EVENTFD = "import ctypes, os, threading, time\nfd = ctypes.CDLL(None).eventfd(0, 0o4000 * {})\n"
LOOP = "while True:\n    os.write(fd, (1).to_bytes(8, 'little'))\n    time.sleep(0.001)"
FAILS = "while True:\n    try: os.write(fd, b'four')\n    except OSError: pass\n    time.sleep(0.001)"
FULL = (
    "def drain():\n    while True:\n        time.sleep(0.005)\n        os.read(fd, 8)\n"
    + "threading.Thread(target=drain, daemon=True).start()\n"
    + "while True: os.write(fd, (2**64 - 2).to_bytes(8, 'little'))"
)


def said(process: Process) -> str:
    unseen: list[Unseen] = []
    found = glance.read("/proc", process, unseen)
    assert found is not None
    assert unseen == []
    return closer.glance_words(found, process.pid, ARCH)


def test_quick_looks_see_writes_to_an_eventfd() -> None:
    with child(LOOP, EVENTFD.format(1)) as process:
        words = said(process)
    assert "blocked in clock_nanosleep" in words or "blocked in pselect6" in words
    assert "writes a second of 8 bytes each" in words
    assert "the counter of eventfd" in words


def test_quick_looks_tell_failing_writes_from_others() -> None:
    with child(FAILS, EVENTFD.format(1)) as process:
        words = said(process)
    assert "writes a second that move nothing or fail" in words
    assert "the counter of eventfd" not in words


def test_quick_looks_name_the_descriptor_of_a_call_that_blocks() -> None:
    with child(FULL, EVENTFD.format(0)) as process:
        assert "blocked in write on an eventfd" in said(process)


def test_quick_looks_at_a_sleeper_see_nothing_move() -> None:
    with child("import time; time.sleep(100)") as process:
        words = said(process)
    assert words.startswith("100 % blocked in")
    assert "a second" not in words


def test_quick_looks_at_a_process_that_ended_say_so() -> None:
    with child("import time; time.sleep(100)") as process:
        pass
    unseen: list[Unseen] = []
    assert glance.read("/proc", process, unseen) is None
    assert [one.reason for one in unseen] == ["gone"]


def test_quick_looks_pause_nothing() -> None:
    with child(LOOP, EVENTFD.format(1)) as process:
        states: set[str] = set()
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                states.add(state(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        fields, unseen = ask(process, "glance")
        done.set()
        watcher.join()
    assert unseen == []
    assert fields["glance"]["looks"] == glance.LOOKS
    assert "deep" not in fields
    assert states <= set("RSD")


@needs_strace
def test_strace_says_what_a_loop_does_and_what_it_cost() -> None:
    with child(LOOP, EVENTFD.format(1)) as process:
        before = guardian.standing("/proc", process)
        fields, unseen = ask(process, "strace")
        assert guardian.differences(before, guardian.standing("/proc", process)) == set()
        assert state(process.pid) in "RS"
    assert unseen == []
    (step,) = fields["deep"]
    assert 1.5 < step["wall_s"] < 3.5
    assert 0 < step["paused_ms"] <= 1000 * step["wall_s"]
    assert tick.paused_ms(fields) == {str(process.pid): step["paused_ms"]}
    calls = fields["trace"]["calls"]
    assert any(one["name"] == "write" and one["size"] == 8 and "eventfd" in one["target"] for one in calls)


@needs_strace
def test_strace_says_why_a_loop_fails() -> None:
    with child(FAILS, EVENTFD.format(1)) as process:
        fields, _ = ask(process, "strace")
    written = [one for one in fields["trace"]["calls"] if one["name"] == "write"]
    assert [(one["size"], one["error"]) for one in written] == [(4, "EINVAL")]


@needs_strace
def test_calls_that_an_attach_may_end_are_named() -> None:
    code = "import select; poller = select.epoll(); poller.poll(100)"
    with child(code) as process:
        fields, _ = ask(process, "strace", seconds=1.6)
    assert fields["deep"][0]["interrupted"][0].startswith(f"thread {process.pid}: epoll_")


@needs_pyspy
@needs_compiler
def test_native_stacks_name_the_function_that_holds_a_thread(tmp_path: Path) -> None:
    source = tmp_path / "k.c"
    source.write_text(
        "#include <pthread.h>\nstatic pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n"
        "void repack(void) { pthread_mutex_lock(&m); pthread_mutex_lock(&m); }\n"
    )
    library = tmp_path / "libk.so"
    subprocess.run(["cc", "-g", "-shared", "-fPIC", "-o", library, source], check=True)
    with child(f"import ctypes\ndef hook(): ctypes.CDLL({str(library)!r}).repack()\nhook()") as process:
        fields, unseen = ask(process, "native")
        until(lambda: state(process.pid) == "S")
    assert unseen == []
    names = [frame["function"] for one in fields["native"] for frame in one["frames"]]
    assert any("mutex_lock" in name for name in names[:2])
    assert names.index("repack") < names.index("hook")
    assert fields["deep"][0]["paused_ms"] > 0
    assert fields["deep"][0].get("differs", []) == []


def test_the_fields_come_back_from_plain_values() -> None:
    plain = to_plain(Process(1, 0, 0.0, "S", "x", native=[Stack(1)]))
    assert wire.process(plain).native is None  # the agent itself needs none of it


@needs_pyspy
def test_diagnose_deep_announces_measures_and_leaves_everyone_as_before() -> None:
    with Stage(hang=True) as stage:
        stage.wait()
        planted = stage.planted
        done = subprocess.run(
            [sys.executable, "-m", "hangdoc", "diagnose", "--deep", "--json", str(planted)],
            capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        report = json.loads(done.stdout)
        for row in report["processes"]:
            status = Path(f"/proc/{row['pid']}/status").read_text()
            assert "TracerPid:\t0\n" in status
            assert state(row["pid"]) in "RS"
    assert done.returncode == 1
    assert f"--deep: stops scheduler TP1 (pid {planted}) for up to 2 s" in done.stderr
    assert report["verdict"] == "hung"
    (culprit,) = report["culprits"]
    assert "innermost native function" in culprit["detail"]
    assert report["cost"]["paused_ms"][str(planted)] > 0
    assert not any("--deep" in step for step in report["next"])


def test_a_file_cannot_be_looked_at_deeper(tmp_path: Path) -> None:
    (tmp_path / "a.case").touch()
    done = subprocess.run(
        [sys.executable, "-m", "hangdoc", "diagnose", "--deep", str(tmp_path / "a.case")],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--deep" in done.stderr
