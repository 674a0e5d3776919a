"""`hangdoc diagnose` and its neighbours on real processes: the miniature server, and everything that can be wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hangdoc.demo.stage import Stage

# What a replayed case must tell as the live look did.
SAME = (
    "verdict",
    "confidence",
    "summary",
    "culprits",
    "phase",
    "ranks",
    "processes",
    "logs",
    "ports",
    "stacks",
    "unseen",
)
HANGDOC = [sys.executable, "-m", "hangdoc"]


def hangdoc(*words: object, timeout: float = 60, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return subprocess.run(
        [*HANGDOC, *map(str, words)], capture_output=True, text=True, timeout=timeout, check=False, **options
    )


@pytest.fixture(scope="module")
def hung() -> Iterator[Stage]:
    """A miniature server that hangs after its weights."""
    with Stage(hang=True) as stage:
        stage.wait()
        yield stage


@pytest.fixture
def child() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts processes and ends them."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str, **options: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(words, **options))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()


def test_the_planted_scheduler_is_named_whichever_process_is_given(hung: Stage) -> None:
    """Any member finds the launch; verdict, culprit, mechanism and status are those of a certain hang."""
    done = hangdoc("diagnose", hung.planted, "--json")
    report = json.loads(done.stdout)
    assert (report["verdict"], report["confidence"]) == ("hung", "certain")
    assert [(one["pid"], one["mechanism"]) for one in report["culprits"]] == [(hung.planted, "mutex-self")]
    assert report["phase"]["id"] == "post-load"
    assert report["hangdoc"]["mode"] == "live"
    assert done.returncode == 1


def test_nothing_of_the_target_is_paused(hung: Stage) -> None:
    """While it is looked at, no thread of any member is ever stopped or traced."""
    look = subprocess.Popen([*HANGDOC, "diagnose", str(hung.pid), "--json"], stdout=subprocess.PIPE)
    seen: set[str] = set()
    looks = 0
    while look.poll() is None:
        looks += 1
        for pid in family(hung.pid):
            for task in Path(f"/proc/{pid}/task").glob("*/stat"):
                try:
                    seen.add(task.read_text().rpartition(")")[2].split()[0])
                except OSError:
                    continue
    assert looks > 100
    assert look.returncode == 1
    assert seen <= {"R", "S"}
    if look.stdout:
        look.stdout.close()


def family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def test_a_case_replays_to_the_same_report(hung: Stage, tmp_path: Path) -> None:
    """What was saved gives verdict, culprits and phase again, offline, also under `diagnose CASE`."""
    case = tmp_path / "a.case"
    live = json.loads(hangdoc("diagnose", hung.pid, "--json", "--save", case).stdout)
    for words in (("report", case), ("diagnose", case)):
        done = hangdoc(*words, "--json")
        again = json.loads(done.stdout)
        assert again["hangdoc"]["mode"] == "case"
        assert [name for name in SAME if again[name] != live[name]] == []
        assert done.returncode == 1
    text = case.read_text()
    assert json.loads(text.splitlines()[0])["root"] == hung.pid
    assert hangdoc("diagnose", hung.pid, "--save", case).returncode == 2


@pytest.mark.parametrize("form", [(), ("-v",), ("--markdown",)])
@pytest.mark.parametrize("columns", ["60", "200"])
def test_every_form_fits(
    hung: Stage, tmp_path_factory: pytest.TempPathFactory, form: tuple[str, ...], columns: str
) -> None:
    """Text keeps to the width; every form names the culprit."""
    case = tmp_path_factory.mktemp("form") / "a.case"
    hangdoc("diagnose", hung.pid, "--save", case)
    done = hangdoc("report", case, *form, env={**os.environ, "COLUMNS": columns})
    assert "scheduler TP1" in done.stdout
    if "--markdown" not in form:
        assert max(len(line) for line in done.stdout.splitlines()) <= int(columns)
    assert "\x1b" not in done.stdout


def test_without_stacks_verdict_and_culprit_stay(hung: Stage) -> None:
    """--stacks none: the futex is enough here; the log puts the rank into its weights, whose end it has not printed."""
    report = json.loads(hangdoc("diagnose", hung.pid, "--stacks", "none", "--json").stdout)
    found = (report["verdict"], report["culprits"][0]["pid"], report["phase"]["id"])
    assert found == ("hung", hung.planted, "weight-load")
    assert report["stacks"] == []


def test_ps_and_check_see_the_launch(hung: Stage) -> None:
    """Roles and ranks, and what could be seen."""
    rows = [json.loads(line) for line in hangdoc("ps", hung.pid, "--json").stdout.splitlines()]
    assert [row["root"] for row in rows] == [hung.pid]
    roles = sorted(one["role"] for one in rows[0]["members"].values() if one["role"] != "helper")
    assert roles == ["detokenizer", "launcher", "scheduler", "scheduler"]
    text = hangdoc("ps", hung.pid).stdout
    assert str(hung.planted) in text
    assert "scheduler" in text
    assert "Python stacks" in hangdoc("check", hung.pid).stdout


def test_two_launches_and_no_pid_are_listed(hung: Stage) -> None:
    """Both are shown, status 2."""
    with Stage(hang=True) as other:
        other.wait()
        done = hangdoc("diagnose")
        assert done.returncode == 2
        assert f"  {hung.pid}    sglang" in done.stderr
        assert f"  {other.pid}    sglang" in done.stderr
        assert done.stdout == ""


def test_a_good_start_is_followed_to_ready() -> None:
    """Progressing while it starts, ready at its end; status 0."""
    with Stage(hang=False) as stage:
        time.sleep(2.5)
        early = hangdoc("diagnose", stage.pid, "--json")
        assert json.loads(early.stdout)["verdict"] in ("progressing", "ready")
        stage.wait()
        late = hangdoc("diagnose", stage.pid, "--json")
        assert (json.loads(late.stdout)["verdict"], late.returncode) == ("ready", 0)


def test_a_launch_that_ends_while_it_is_looked_at_is_a_crash() -> None:
    """The root dies between two looks."""
    with Stage(hang=True) as stage:
        stage.wait()
        look = subprocess.Popen([*HANGDOC, "diagnose", str(stage.pid), "--json"], stdout=subprocess.PIPE, text=True)
        time.sleep(2.5)
        os.kill(stage.pid, signal.SIGKILL)
        out, _ = look.communicate(timeout=30)
        assert (json.loads(out)["verdict"], look.returncode) == ("crashed", 5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("diagnose", "4194303"), "there is no process 4194303"),
        (("diagnose", "99999999999"), "there is no process"),
        (("diagnose", "no-such.case"), "neither a PID, a host nor a file"),
        (("diagnose", "/dev/null"), "no hangdoc case"),
        (("report", "/nonexistent/x.case"), "neither a PID nor a file"),
        (("report", "/"), "cannot be read"),
        (("diagnose", "--log", "/nonexistent/x.log"), "there is no file /nonexistent/x.log"),
        (("diagnose", "--stacks", "all"), "--stacks"),
        (("diagnose", "--json", "--markdown", "/dev/null"), "exclude each other"),
        (("diagnose", "--", "-oProxyCommand=id"), "begins with a dash"),
        (("diagnose", "gpu01;id"), "characters that no host name has"),
        (("diagnose", "gpu[1-100000000]"), "more than 4096 hosts"),
        (("diagnose", "1", "2"), "two targets"),
        (("ps", "/dev/null"), "is a file"),
        (("diagnose", "--via", "'", "gpu01"), "is no command"),
        (("diagnose", "--via", "kubectl exec -i {host}"), "no host was named"),
        (("ps", "4194303"), "there is no process"),
        (("check", "4194303"), "there is no process"),
    ],
)
def test_bad_words_get_a_message_and_a_status(words: tuple[str, ...], message: str) -> None:
    """One message on standard error, nothing on standard output."""
    done = hangdoc(*words)
    assert message in done.stderr
    assert done.stdout == ""
    assert done.returncode in (2, 4)
    assert "Traceback" not in done.stderr


def test_a_process_of_no_known_engine_is_looked_at_all_the_same(child: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Unknown engine: its state, no guess at phases."""
    sleeper = child(sys.executable, "-c", "import time; time.sleep(600)")
    time.sleep(0.5)
    done = hangdoc("diagnose", sleeper.pid, "--json")
    report = json.loads(done.stdout)
    assert report["engine"]["name"] == "unknown"
    assert report["verdict"] == "suspect"
    assert [(one["pid"], one["mechanism"]) for one in report["culprits"]] == [(sleeper.pid, "sleep")]
    assert report["phase"] is None


def test_a_zombie_is_a_crash_with_its_signal(child: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A process that ended and was not collected."""
    dead = child("sleep", "600")
    dead.send_signal(signal.SIGSEGV)
    deadline = time.monotonic() + 5
    while "Z" not in Path(f"/proc/{dead.pid}/stat").read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    done = hangdoc("diagnose", dead.pid, "--json")
    report = json.loads(done.stdout)
    assert (report["verdict"], done.returncode) == ("crashed", 5)
    assert "signal 11" in report["culprits"][0]["detail"]


def test_a_full_disk_costs_the_case_and_nothing_else(child: Callable[..., subprocess.Popen[bytes]]) -> None:
    """/dev/full stands for it, through a link; the report comes whole."""
    sleeper = child(sys.executable, "-c", "import time; time.sleep(600)")
    code = (
        "import sys, errno, hangdoc.session.casefile as c; real = c.CaseWriter._line\n"
        "def full(self, record):\n"
        "    self.n = getattr(self, 'n', 0) + 1\n"
        "    if self.n > 2: raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "    real(self, record)\n"
        "c.CaseWriter._line = full\n"
        "from hangdoc.__main__ import main; sys.exit(main())"
    )
    path = Path(f"/tmp/hangdoc-test-{sleeper.pid}.case")
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, "diagnose", str(sleeper.pid), "--json", "--timeout", "3", "--save", str(path)],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert json.loads(done.stdout)["schema"] == "hangdoc.report/1"
        assert "incomplete: No space left on device" in done.stderr
        assert len(path.read_text().splitlines()) == 2
    finally:
        path.unlink(missing_ok=True)


def test_ctrl_c_ends_with_130_and_leaves_nothing(hung: Stage, tmp_path: Path) -> None:
    """The case so far is kept and named; the agent ends."""
    case = tmp_path / "a.case"
    words = [*HANGDOC, "diagnose", str(hung.pid), "--save", str(case)]
    look = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while not (case.exists() and len(case.read_text().splitlines()) > 2) and time.monotonic() < deadline:
        time.sleep(0.05)
    agents = family(look.pid)[1:]
    look.send_signal(signal.SIGINT)
    out, err = look.communicate(timeout=20)
    assert (look.returncode, out) == (130, "")
    assert str(case) in err
    assert "Traceback" not in err
    assert agents
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in agents) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in agents if Path(f"/proc/{pid}").exists()]
    assert hangdoc("report", case, "--json").returncode in (0, 1, 3)


def test_another_user_is_told_what_could_not_be_seen(hung: Stage) -> None:
    """As a user without rights: never "healthy", the rest is unseen with its fix."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root, with setpriv, can become another user")
    # It may read any file, so that it finds this interpreter, and still has no right to look into others' processes.
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    done = subprocess.run(
        [*nobody, *reading, *HANGDOC, "diagnose", str(hung.pid), "--json"],
        capture_output=True, text=True, check=False, timeout=90,
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert report["verdict"] in ("suspect", "undecided")
    denied = [one for one in report["unseen"] if one["reason"] == "denied"]
    assert {one["probe"] for one in denied} >= {"threads", "fds"}
    assert all("root" in one["fix"] for one in denied)
    assert done.returncode in (3, 4)
