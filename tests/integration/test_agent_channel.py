"""The channel to an agent: how it starts on any Python, how it ends, and what is said when it does not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from targets import eventually, running

from hangdoc.agent import bootstrap, bundle
from hangdoc.codec import convert
from hangdoc.hosts.channel import ChannelError
from hangdoc.hosts.frames import Reader
from hangdoc.hosts.local import CommandChannel, LocalChannel
from hangdoc.model.ask import Ask
from hangdoc.model.sample import Sample
from hangdoc.probes import processes
from hangdoc.session import casefile

SOURCES = str(Path(processes.__file__).parents[2])
STATE = ("processes", "threads", "fds", "environ")


def test_the_local_channel_asks_again_and_again_and_leaves_nothing() -> None:
    with running(["sh", "-c", "echo ready; exec sleep 300"]) as (pid, _):
        channel = LocalChannel()
        assert channel.pid is None
        for number in range(3):
            sample = channel.ask(Ask(number, STATE, pids=(pid,)))
            assert sample.processes[pid].threads
            assert sample.host == os.uname().nodename
        agent = channel.pid
        channel.close()
        channel.close()
        assert agent not in processes.list_all()
        with pytest.raises(ChannelError):
            channel.ask(Ask(9, STATE))


def test_the_standing_child_of_an_agent_is_no_part_of_what_is_looked_at() -> None:
    channel = CommandChannel("here", bootstrap.here(sys.executable, SOURCES))
    try:
        channel.ask(Ask(0, STATE, pids=(os.getpid(),), together=True))
        child = next(one.pid for one in processes.list_all().values() if one.ppid == channel.pid)
        for question in (Ask(1, ("scan",)), Ask(2, ("processes",), pids=(os.getpid(),))):
            found = channel.ask(question).processes
            assert os.getpid() in found
            assert not {child, channel.pid} & set(found)
    finally:
        channel.close()


def test_an_agent_that_was_killed_is_an_error_with_its_last_words() -> None:
    channel = LocalChannel()
    channel.ask(Ask(0, STATE, pids=(os.getpid(),)))
    assert channel.pid is not None
    os.kill(channel.pid, signal.SIGKILL)
    with pytest.raises(ChannelError, match="ended"):
        channel.ask(Ask(1, STATE))
    channel.close()


@pytest.mark.parametrize(
    ("script", "message", "words"),
    [
        ("echo no such container >&2; exit 3", "status 3", "no such container"),
        ("echo Welcome; cat >/dev/null", "in time", "Welcome"),
        ("head -c 200000 >/dev/null; yes", "no answer of an agent", "y"),
        ("sleep 60", "in time", ""),
        ("yes >&2", "in time", "y"),
    ],
)
def test_a_command_that_is_no_agent_is_an_error_with_its_last_words(script: str, message: str, words: str) -> None:
    with pytest.raises(ChannelError, match=message) as caught:
        CommandChannel("there", ["sh", "-c", script], b"x" * 200_000, start_s=1.0)
    assert words in caught.value.last_words
    assert len(caught.value.last_words) <= 2000


def test_a_missing_command_is_an_error() -> None:
    with pytest.raises(ChannelError, match="could not be started"):
        CommandChannel("there", ["/nonexistent/ssh"], b"")


CALLER = """
import os, sys, time
from hangdoc.hosts.local import LocalChannel
from hangdoc.model.ask import Ask
channel = LocalChannel()
channel.ask(Ask(0, ("processes",), pids=(os.getpid(),), together=sys.argv[1] == "together"))
print(channel.pid, flush=True)
channel.ask(Ask(1, ("health",), pids=(os.getpid(),), deadline_s=30.0))
time.sleep(60)
"""


@pytest.mark.parametrize("way", ["together", "apart"])
def test_the_agent_ends_when_its_caller_is_killed(way: str) -> None:
    path = str(Path(processes.__file__).parents[2])
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER, way], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    )
    assert caller.stdout is not None
    agent = int(caller.stdout.readline())
    caller.kill()
    caller.communicate()
    assert eventually(lambda: agent not in processes.list_all(), 5)


def _agent(python: str, patch: str = "") -> subprocess.CompletedProcess[bytes]:
    raw = bundle.build()
    command = bootstrap.command(python, len(raw))
    command[4] = patch + command[4]
    question = json.dumps({"id": 1, "probes": ["processes", "threads"], "pids": [os.getpid()]}).encode()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(raw + question + b"\n")
        process.stdin.flush()
        lines = process.stdout.readline() + process.stdout.readline()
    except BrokenPipeError:
        lines = b""
    _, errors = process.communicate(timeout=20)
    return subprocess.CompletedProcess(command, process.returncode, lines, errors)


def pythons() -> list[str]:
    """Ours, and every other one installed with pyenv, by version."""
    found = (str(one) for one in Path.home().glob(".pyenv/versions/3.*/bin/python") if one.exists())
    return [sys.executable, *sorted(found, key=minor)]


def minor(python: str) -> int:
    """The second number of a pyenv Python's version."""
    return int(Path(python).parents[1].name.split(".")[1])


SUPPORTED = [one for one in pythons() if one == sys.executable or minor(one) >= 8]
TOO_OLD = [one for one in pythons() if one not in SUPPORTED]


@pytest.mark.parametrize("python", SUPPORTED)
@pytest.mark.parametrize("patch", ["", "import os; vars(os).pop(chr(109) + 'emfd_create', None)\n"])
def test_the_agent_runs_from_memory_or_a_private_folder_on_every_python(python: str, patch: str) -> None:
    done = _agent(python, patch)
    assert done.stderr == b""
    hello, reply = (json.loads(line) for line in Reader().feed(done.stdout))
    assert hello["hello"] == 1
    assert convert(reply["sample"], Sample).processes[os.getpid()].threads
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("python", "patch"),
    [(sys.executable, "import sys; sys.version_info = (3, 6, 9)\n"), *((one, "") for one in TOO_OLD)],
)
def test_an_older_python_is_refused_in_words(python: str, patch: str) -> None:
    done = _agent(python, patch)
    assert done.returncode == bootstrap.UNAVAILABLE
    assert b"Python 3." in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("python", SUPPORTED)
def test_the_dumped_file_prints_a_case(python: str, tmp_path: Path) -> None:
    file, case = tmp_path / "agent.pyz", tmp_path / "host.case"
    file.write_bytes(bundle.dump())
    with case.open("wb") as sink:
        subprocess.run([python, "-I", "-S", file, str(os.getpid())], stdout=sink, timeout=90, check=True)
    header, samples = casefile.read(case)
    assert (header.root, header.host) == (os.getpid(), os.uname().nodename)
    first, *looks = samples
    assert "scan" in first.probes
    assert looks[-1].mono - looks[0].mono > 5
    assert all(one.processes[os.getpid()].threads for one in looks)
    assert subprocess.run([python, file, "--help"], capture_output=True, timeout=60, check=False).returncode == 2
