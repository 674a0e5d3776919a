"""What real ssh and sshd do when they refuse: each is told with ssh's own words and what to do; no prompt, no waiver."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from overssh import hangdoc, server, told
from sshosts import Site, site

Hosts = Callable[..., Site]
LISTENER = "import socket, time; s = socket.create_server(('', 2022)); print('up', flush=True); c = s.accept(); time.sleep(600)"
FAILURES = [
    ("unknown", "UserKnownHostsFile /dev/null", "denied", "Host key verification failed", "compare the fingerprint"),
    (
        "changed",
        "UserKnownHostsFile {folder}/changed",
        "denied",
        "HOST IDENTIFICATION HAS CHANGED",
        "find out why its key",
    ),
    ("stranger", "PubkeyAuthentication no", "denied", "Permission denied (publickey", "ssh HOST must work"),
    ("closed", "Port 23", "failed", "Connection refused", "is sshd running"),
    ("nowhere", "HostName 10.99.0.1", "failed", "Network is unreachable", "can this machine reach it"),
    ("absent", "HostName 10.77.0.99", "failed|timed-out", "No route to host|timed out", "can this machine reach it"),
    ("nameless", "HostName no.such.name.invalid", "failed", "Could not resolve hostname", "check the name"),
    ("silent", "Port 2022", "timed-out", "timed out during banner exchange", "--connect-timeout"),
    ("hopless", "ProxyJump nobody.invalid", "failed", "Could not resolve hostname nobody.invalid", "check the name"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """gpu01 has a server that hangs; gpu02 has failures under many names."""
    with site(tmp_path_factory.mktemp("failures"), 2) as made:
        stranger = (made.folder / "stranger.pub").read_text()
        (made.folder / "changed").write_text(f"gpu02,{made.hosts[1].address} {stranger}")
        rows = []
        for name, line, *_ in FAILURES:
            more = "" if "HostName" in line else f"  HostName {made.hosts[1].address}\n"
            rows.append(f"Host {name}\n  HostKeyAlias gpu02\n  {line.format(folder=made.folder)}\n{more}")
        made.config.write_text("".join(rows) + made.config.read_text())
        listener = subprocess.Popen([*made.hosts[1].enter, sys.executable, "-c", LISTENER], stdout=subprocess.PIPE)
        try:
            assert listener.stdout is not None
            assert listener.stdout.readline() == b"up\n"
            with server(made, made.hosts[0], hang=True):
                yield made
        finally:
            listener.kill()  # what it started in the host's pid namespace ends with the host
            listener.wait()
            if listener.stdout is not None:
                listener.stdout.close()


@pytest.mark.parametrize(("name", "line", "reason", "words", "fix"), FAILURES, ids=[one[0] for one in FAILURES])
def test_each_refusal_is_told_when_it_is_all_there_is(
    place: Site, name: str, line: str, reason: str, words: str, fix: str
) -> None:
    began = time.monotonic()
    done = hangdoc(place, "diagnose", name, "--connect-timeout", "3")
    assert time.monotonic() - began < 15
    assert done.returncode == 4
    assert done.stdout == ""
    assert re.search(words.replace("(", r"\("), done.stderr), done.stderr
    assert fix in done.stderr
    assert name in done.stderr


def test_all_of_them_are_rows_beside_the_host_that_answers(place: Site) -> None:
    names = [one[0] for one in FAILURES]
    done = hangdoc(place, "diagnose", "gpu01", ",".join(names), "--json")
    report = told(done, 1)  # the verdict does not depend on them
    assert (report["verdict"], report["culprits"][0]["host"]) == ("hung", "gpu01")
    rows = {one["host"]: one for one in report["unseen"] if one["probe"] == "reach"}
    assert set(rows) == set(names)
    for name, _, reason, words, fix in FAILURES:
        row = rows[name]
        assert re.fullmatch(reason, row["reason"]), row
        assert re.search(words.replace("(", r"\("), row["detail"]), row
        assert fix in row["fix"], row


def test_the_same_host_named_twice_is_one(place: Site) -> None:
    report = told(hangdoc(place, "diagnose", "gpu01,gpu01", "root@gpu01", "--json"), 1)
    assert len(report["culprits"]) == 1
    assert {one["host"] for one in report["processes"]} == {"gpu01"}


def test_without_an_ssh_client(place: Site, tmp_path: Path) -> None:
    done = hangdoc(place, "diagnose", "gpu01", PATH=str(tmp_path))
    assert (done.returncode, "ssh: No such file" in done.stderr, "install that command" in done.stderr) == (
        4,
        True,
        True,
    )


def test_a_verdict_that_stays_open_because_of_a_lost_host_is_status_4(place: Site) -> None:
    """No launch is seen on the one host that answers: what is on the lost one decides."""
    done = hangdoc(place, "diagnose", "gpu02", "closed")
    assert done.returncode == 4
    assert "Connection refused" in done.stderr


ANSWERS = [
    ("ForceCommand echo This account is for backups only", "This account is for backups only", "--via"),
    ("ForceCommand sleep 300", "no shell answered", "ssh HOST sh"),
    ("ForceCommand cat /dev/zero", "no answer of an agent", "--via"),
    ("ForceCommand yes hello", "no answer of an agent", "--via"),
    ("ForceCommand false", "status 1 and said nothing", "uptime"),
    ("MaxSessions 0", "open failed|no shell answered|ended", ""),
]


@pytest.mark.parametrize(("line", "words", "fix"), ANSWERS, ids=[one[0] for one in ANSWERS])
def test_what_answers_in_place_of_a_shell(hosts_of: Hosts, line: str, words: str, fix: str) -> None:
    made = hosts_of(sshd={0: line})
    done = hangdoc(made, "diagnose", "gpu01", "--connect-timeout", "4")
    assert done.returncode == 4
    assert re.search(words, done.stderr), done.stderr
    assert fix in done.stderr
    assert len(done.stderr) < 2000


@pytest.mark.parametrize(
    "line",
    [
        "Banner {folder}/banner",
        'ForceCommand echo Welcome to gpu01; echo stray >&2; printf unfinished; eval "$SSH_ORIGINAL_COMMAND"',
        'ForceCommand rbash -c "$SSH_ORIGINAL_COMMAND"',
        "ForceCommand $SSH_ORIGINAL_COMMAND",
        'ForceCommand ulimit -n 64; ulimit -v 500000; eval "$SSH_ORIGINAL_COMMAND"',
    ],
    ids=["banner", "noise", "restricted", "unquoted", "limits"],
)
def test_what_does_not_keep_it_from_working(hosts_of: Hosts, tmp_path: Path, line: str) -> None:
    (tmp_path / "banner").write_text("*** Authorised use only. ***\n" * 50)
    made = hosts_of(sshd={0: line.format(folder=tmp_path)})
    done = hangdoc(made, "diagnose", "gpu01:1", "--json")
    assert 1 in [one["pid"] for one in told(done)["processes"]], done.stderr


@pytest.mark.slow
def test_a_host_that_dies_in_the_middle_takes_nothing_from_the_other(hosts_of: Hosts) -> None:
    made = hosts_of(2)
    with server(made, made.hosts[0]), server(made, made.hosts[1]):
        command = [sys.executable, "-m", "hangdoc", "watch", "gpu[01-02]", "--json", "--timeout", "20"]
        look = subprocess.Popen(command, env=made.environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert look.stdout is not None
        look.stdout.readline()  # both hosts were reached by now
        os.kill(made.hosts[1].pid, signal.SIGKILL)  # all of it at once
        out, _ = look.communicate(timeout=60)
    assert look.returncode in (0, 2, 3), out


@pytest.mark.slow
def test_a_host_that_goes_silent_is_unseen_and_not_dead(hosts_of: Hosts) -> None:
    made = hosts_of()
    with server(made, made.hosts[0], hang=True):
        command = [sys.executable, "-m", "hangdoc", "watch", "gpu01", "--json", "--timeout", "25", "--stacks", "none"]
        look = subprocess.Popen(command, env=made.environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert look.stdout is not None
        look.stdout.readline()
        made.unplug(made.hosts[0])
        out, errors = look.communicate(timeout=90)
        report = told(subprocess.CompletedProcess(command, look.returncode, out, errors))
    assert report["verdict"] != "crashed"
    assert [one["probe"] for one in report["unseen"] if one["host"] == "gpu01" and one["probe"] == "reach"] == ["reach"]


@pytest.fixture
def sudo(hosts_of: Hosts, tmp_path: Path) -> Callable[[str], Site]:
    """A host with a command `sudo` of this text."""

    def make(text: str) -> Site:
        folder = tmp_path / "sudo-bin"
        folder.mkdir()
        (folder / "sudo").write_text(f"#!/bin/sh\n{text}\n")
        (folder / "sudo").chmod(0o755)
        return hosts_of(sshd={0: f"SetEnv PATH={folder}:/usr/bin:/bin"})

    return make


def test_sudo_runs_the_agent_or_says_why_not(sudo: Callable[[str], Site]) -> None:
    made = sudo('[ "$1 $2" = "-n --" ] || exit 9; shift 2; export BY_SUDO=1; exec "$@"')
    assert 1 in [one["pid"] for one in told(hangdoc(made, "diagnose", "gpu01:1", "--sudo", "--json"))["processes"]]


def test_sudo_that_wants_a_password(sudo: Callable[[str], Site]) -> None:
    made = sudo("echo 'sudo: a password is required' >&2; exit 1")
    done = hangdoc(made, "diagnose", "gpu01", "--sudo")
    assert (done.returncode, "a password is required" in done.stderr, "NOPASSWD" in done.stderr) == (4, True, True)


def test_via_goes_into_a_namespace_behind_ssh_here_and_in_place_of_ssh(place: Site) -> None:
    host = place.hosts[0]
    there = told(hangdoc(place, "diagnose", "gpu01:1", "--via", "nsenter -t 1 -a", "--json"))
    assert 1 in [one["pid"] for one in there["processes"]]
    here = told(hangdoc(place, "diagnose", "--via", f"nsenter -t {host.pid} -a", "--json"), 1)
    assert here["culprits"][0]["rank"] == "TP1"
    instead = told(
        hangdoc(place, "diagnose", "gpu01", "--via", f"{place.bin}/ssh -oBatchMode=yes {{host}}", "--json"), 1
    )
    assert instead["culprits"][0]["host"] == "gpu01"
    done = hangdoc(place, "diagnose", "--via", "/nonexistent/docker exec -i c")
    assert (done.returncode, "docker: No such file" in done.stderr) == (4, True)
