"""A reach over commands that stand for ssh: every way in which one of them can fail takes nothing from the others."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from targets import eventually

from hangdoc.agent import bootstrap, bundle
from hangdoc.hosts import frames, link, names
from hangdoc.hosts.channel import Lost
from hangdoc.hosts.cluster import ClusterReach
from hangdoc.hosts.roads import Road, Way, roads
from hangdoc.model.ask import Ask
from hangdoc.model.sample import Sample

GOOD = ("sh",)


@contextlib.contextmanager
def reach(*commands: Sequence[str], **options: object) -> Iterator[ClusterReach]:
    """A reach of hosts named a, b, c … behind these commands."""
    roads = [Road(chr(ord("a") + number), tuple(command)) for number, command in enumerate(commands)]
    made = ClusterReach(roads, **options)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()


def asked(made: ClusterReach, number: int = 1, *probes: str, deadline_s: float = 5.0) -> dict[str, Sample | Lost]:
    """The answers of all hosts to one question about this process."""
    ask = Ask(number, probes or ("processes", "threads"), pids=(os.getpid(),), deadline_s=deadline_s)
    return made.exchange(dict.fromkeys(made.hosts, ask))


def good(answer: Sample | Lost) -> bool:
    """Whether it is a sample in which this process was seen."""
    return isinstance(answer, Sample) and bool(answer.processes[os.getpid()].threads)


def lost(answer: Sample | Lost) -> Lost:
    """The answer of a host that is lost."""
    assert isinstance(answer, Lost), answer
    return answer


def executable(path: Path, text: str) -> Path:
    """A script."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_agents_answer_again_and_again_and_nothing_is_left() -> None:
    mark = f"HANGDOC_TEST={uuid.uuid4()}"
    with reach(("env", mark, *GOOD), ("env", mark, *GOOD)) as made:
        for number in range(3):
            answers = asked(made, number)
            assert all(good(one) for one in answers.values())
            assert list(answers) == ["a", "b"]
        assert len(marked(mark)) == 2
        began = time.monotonic()
    assert time.monotonic() - began < 1
    assert marked(mark) == []
    made.close()


def marked(mark: str) -> list[int]:
    """Processes with this variable in their environment."""
    found = []
    for one in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in one.read_bytes():
                found.append(int(one.parent.name))
    return found


@pytest.mark.parametrize(
    "noise",
    [
        "echo Welcome to gpu01",
        'printf "a line without an end"',
        "head -c 300000 /dev/zero",
        "seq 1 20000",
        'printf "caf\\351\\r\\n\\033[31mred"; echo on stderr >&2',
        "(sleep 0.3; seq 1 100) & true",
    ],
)
def test_what_a_login_prints_is_no_answer(noise: str) -> None:
    with reach(("sh", "-c", f"{noise}; exec sh")) as made:
        assert good(asked(made)["a"])
        time.sleep(0.4)
        assert good(asked(made, 2)["a"])


FAILURES = [
    ("exit 3", "failed", "ended with status 3 and said nothing"),
    ("echo 'Host key verification failed.' >&2; exit 255", "denied", "status 255: Host key verification failed."),
    ("echo 'root@a: Permission denied (publickey).' >&2; exit 255", "denied", "Permission denied"),
    ("echo 'sudo: a password is required' >&2; exit 1", "denied", "a password is required"),
    ("echo 'ssh: connect to host a port 22: Connection timed out' >&2; exit 255", "timed-out", "timed out"),
    ("echo 'sh: 1: python3: not found' >&2; exit 127", "tool-missing", "not found"),
    ("echo 'This service allows sftp connections only.'; exit 1", "failed", "sftp connections only"),
    ("exec >&-; sleep 60", "failed", "and said nothing"),
    ("kill -9 $$", "failed", "status -9"),
    ("exec sleep 60", "timed-out", "no shell answered within 6 s"),
    ("echo Welcome; while read x; do :; done", "timed-out", "last words: Welcome"),
    ("exec yes", "failed", "no answer of an agent"),
    ("exec cat /dev/zero", "failed", "no answer of an agent"),
    ("while :; do printf '\\037'; head -c 40000 /dev/zero | tr '\\0' x; echo; done", "failed", "more than 1 MB"),
    ("printf '\\036'; exec tr '\\0' x </dev/zero", "failed", "does not end"),
    ("printf '\\036{\"go\":[]}\\n'; exec cat >/dev/null", "failed", "no answer of an agent"),
    ("printf '\\036{\"go\":1}\\n'; while read x; do :; done", "timed-out", "its Python did not start the agent"),
    ("(exec yes words >&2)", "failed", "no end of complaints; last words: words"),
]


@pytest.mark.parametrize(("script", "reason", "detail"), FAILURES)
def test_a_host_that_fails_is_lost_with_its_words_and_the_other_answers(
    script: str, reason: str, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MESSAGE_LIMIT", 1 << 20)
    with reach(("sh", "-c", script), GOOD, connect_s=4.0) as made:
        began = time.monotonic()
        answers = asked(made)
        assert time.monotonic() - began < 14
        assert good(answers["b"])
        found = lost(answers["a"])
        assert found.host == "a"
        assert (found.reason, detail in found.detail) == (reason, True), found
        assert len(found.detail) < 800
        assert found == asked(made, 2)["a"]  # it stays lost, with what was said first
        assert good(asked(made, 3)["b"])


def test_a_missing_command_is_told() -> None:
    with reach(("/nonexistent/ssh", "a"), GOOD) as made:
        answers = asked(made)
        assert lost(answers["a"]) == Lost("a", "tool-missing", "ssh: No such file or directory")
        assert good(answers["b"])


def test_a_host_that_dies_between_two_questions_is_gone_and_comes_back_on_retry() -> None:
    with reach(GOOD, GOOD) as made:
        asked(made)
        client = made._links["a"].client
        assert client is not None
        os.kill(client.process.pid, signal.SIGKILL)
        answers = asked(made, 2)
        assert lost(answers["a"]).reason == "gone"
        assert good(answers["b"])
        made.retry()
        answers = asked(made, 3)
        assert isinstance(answers["a"], Lost)  # nobody waits for it
        number = iter(range(4, 100))
        eventually(lambda: good(asked(made, next(number))["a"]), 10)


def test_a_host_that_stops_in_the_middle_of_an_answer_is_given_up_in_time() -> None:
    with reach(GOOD, GOOD) as made:
        asked(made)
        client = made._links["a"].client
        assert client is not None
        os.kill(client.process.pid, signal.SIGSTOP)
        began = time.monotonic()
        answers = asked(made, 2, deadline_s=0.5)
        assert 3 < time.monotonic() - began < 5
        assert (lost(answers["a"]).reason, good(answers["b"])) == ("timed-out", True)
    assert client.process.poll() is not None  # also the stopped one was ended


def test_one_that_is_much_slower_than_the_others_is_given_up(tmp_path: Path) -> None:
    slow = executable(tmp_path / "ssh", "exec sleep 60")
    with reach(GOOD, GOOD, GOOD, (str(slow),)) as made:
        began = time.monotonic()
        answers = asked(made)
        assert 5 < time.monotonic() - began < 9
        assert [name for name, one in answers.items() if isinstance(one, Lost)] == ["d"]


def test_no_more_hosts_are_called_at_once_than_wanted(tmp_path: Path) -> None:
    count = f"echo x >>{tmp_path}/calls; n=$(wc -l <{tmp_path}/calls); sleep 0.3; exec sh"
    with reach(*[("sh", "-c", count)] * 6, fanout=2) as made:
        began = time.monotonic()
        assert all(good(one) for one in asked(made).values())
        assert time.monotonic() - began > 0.9


# What strangers' machines lack.


def on_path(folder: Path, *names: str) -> Path:
    """A folder with links to these programs and nothing else."""
    folder.mkdir(exist_ok=True)
    for name in names:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """A shell that finds programs only in the folder `bin`, also those with an absolute path."""
    everywhere = " /usr/local/bin/python3 /usr/bin/python3 /opt/conda/bin/python3"
    assert everywhere in bootstrap._FIND
    monkeypatch.setattr(bootstrap, "_FIND", bootstrap._FIND.replace(everywhere, ""))
    folder = on_path(tmp_path / "bin", "sh", "stat", "id", "cat")
    return ("sh", "-c", f"PATH={folder}; export PATH; exec sh")


def test_a_host_without_python_says_so(bare: tuple[str, ...]) -> None:
    with reach(bare) as made:  # without readlink no interpreter of others is found
        found = lost(asked(made)["a"])
    assert (found.reason, "no Python 3.8 or newer on this host" in found.detail) == ("tool-missing", True), found


def test_a_python_that_is_too_old_is_named_and_passed_over(tmp_path: Path, bare: tuple[str, ...]) -> None:
    folder = tmp_path / "bin"
    executable(folder / "python3", "exit 1")  # what sys.exit(sys.version_info < (3, 8)) gives
    with reach(bare) as made:
        found = lost(asked(made)["a"])
    assert (found.reason, f"only {folder}/python3" in found.detail) == ("tool-missing", True), found
    (folder / "python3.11").symlink_to(sys.executable)
    with reach(bare) as made:
        assert good(asked(made)["a"])


def test_the_interpreter_of_a_running_process_serves_where_the_host_has_none(
    tmp_path: Path, bare: tuple[str, ...]
) -> None:
    on_path(tmp_path / "bin", "readlink")
    with reach(bare) as made:  # this test is such a process
        assert good(asked(made)["a"])


@pytest.mark.root
@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv to be another user"
)
@pytest.mark.parametrize("processes", [1, 4, 8])
def test_a_user_who_may_have_few_processes(processes: int) -> None:
    """One is too few for a shell; with more the scan goes through, and what could not be started is told."""
    other = (
        "setpriv",
        "--reuid",
        "54321",
        "--clear-groups",
        "prlimit",
        f"--nproc={processes}",
        "env",
        "PATH=/usr/bin:/bin",
    )
    with reach((*other, "sh")) as made:
        answer = made.exchange({"a": Ask(1, ("scan",))})["a"]
    if processes == 1:
        assert "fork" in lost(answer).detail.lower()
    else:
        assert isinstance(answer, Sample), answer
        assert answer.processes


def test_an_agent_that_nobody_asks_for_long_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection may die without a word; the far side must not stay."""
    monkeypatch.setattr(link, "IDLE_S", 0.5)
    with reach(GOOD) as made:
        assert good(asked(made)["a"])
        client = made._links["a"].client
        assert client is not None
        eventually(lambda: client.process.poll() == 0, 10)


@pytest.mark.slow
def test_a_thousand_names_of_which_thirty_are_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    stub = Path(__file__).with_name("ssh_stub.c")
    subprocess.run([compiler, "-O1", "-w", stub, "-o", tmp_path / "ssh"], check=True, timeout=60)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name, value in (("ZIP", len(bundle.build())), ("DEAD", 33), ("SECONDS", 2)):
        monkeypatch.setenv(name, str(value))
    hosts = names.expand(["node[1-1000]"])
    made = ClusterReach(roads(hosts, Way()))
    try:
        for number in (1, 2):
            began = time.monotonic()
            answers = made.exchange(dict.fromkeys(hosts, Ask(number, ("scan",))))
            took = time.monotonic() - began
            dead = {host: one for host, one in answers.items() if isinstance(one, Lost)}
            assert sorted(dead, key=hosts.index) == [f"node{one}" for one in range(33, 1001, 33)]
            assert {one.reason for one in dead.values()} == {"timed-out"}
            assert [one.host for one in answers.values() if isinstance(one, Sample)] == [
                one for one in hosts if one not in dead
            ]
        assert took < 5  # the dead ones are known by now
    finally:
        made.close()
