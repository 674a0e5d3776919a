"""Every command over real ssh as on localhost, with what a user's own configuration says; and nothing is left there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from overssh import hangdoc, server, told
from sshosts import HUB, Site
from targets import eventually

Hosts = Callable[..., Site]


@pytest.fixture(scope="module")
def hung(two_hosts: Site) -> Iterator[Site]:
    """Two hosts; on the first a server hangs after its weights."""
    with server(two_hosts, two_hosts.hosts[0], hang=True):
        yield two_hosts


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose name leaves room for the name of a socket."""
    with tempfile.TemporaryDirectory(prefix="cm") as name:
        yield Path(name)


def test_a_hang_is_diagnosed_on_a_host(hung: Site) -> None:
    report = told(hangdoc(hung, "diagnose", "root@gpu01", "--json"), 1)
    (culprit,) = report["culprits"]
    assert (report["verdict"], report["confidence"], report["phase"]["id"]) == ("hung", "certain", "post-load")
    assert (culprit["rank"], culprit["mechanism"]) == ("TP1", "mutex-self")
    title = hung.run(hung.hosts[0], "cat", f"/proc/{culprit['pid']}/cmdline")  # its number on its own host
    assert "scheduler_TP1" in title
    assert any(frame["function"].endswith("_repack_twice") for frame in [culprit["frame"]])
    assert [one["probe"] for one in report["unseen"]] == ["environ"] * len(report["unseen"])


def test_ps_and_check_see_what_they_see_at_home(hung: Site) -> None:
    launch = told(hangdoc(hung, "ps", "gpu01", "--json"), 0)
    assert (launch["engine"], len([one for one in launch["members"].values() if one["role"] == "scheduler"])) == (
        "sglang",
        2,
    )
    done = hangdoc(hung, "check", "gpu01")
    assert "members of the launch" in done.stdout
    assert done.returncode == 3  # environ is overwritten by titles


def test_any_process_of_it_finds_it_and_another_number_does_not(hung: Site) -> None:
    pids = [int(key.rpartition(":")[2]) for key in told(hangdoc(hung, "ps", "gpu01", "--json"))["members"]]
    report = told(hangdoc(hung, "diagnose", f"gpu01:{max(pids)}", "gpu02", "--json"), 1)
    assert report["culprits"][0]["host"] == "gpu01"
    done = hangdoc(hung, "diagnose", "gpu01:99999")
    assert (done.returncode, "no process 99999" in done.stderr) == (2, True)


def test_watch_ends_with_the_hang_and_a_case_travels(hung: Site, tmp_path: Path) -> None:
    case = tmp_path / "hang.case"
    done = hangdoc(hung, "watch", "gpu01", "--json", "--save", case, "--timeout", 60)
    report = told(done, 1)
    assert report["verdict"] == "hung"
    assert case.stat().st_mode & 0o777 == 0o600
    again = told(hangdoc(hung, "diagnose", case, "--json"), 1)
    assert again["culprits"] == report["culprits"]


@pytest.mark.slow
def test_the_agent_that_was_run_by_hand_gives_a_case(hung: Site, tmp_path: Path) -> None:
    agent, case = tmp_path / "agent.pyz", tmp_path / "gpu01.case"
    assert hangdoc(hung, "agent", "--dump", agent).returncode == 0
    case.write_text(hung.run(hung.hosts[0], "python3", agent))
    report = told(hangdoc(hung, "diagnose", case, "--json"), 1)
    (culprit,) = report["culprits"]
    assert (report["verdict"], culprit["host"], culprit["rank"]) == ("hung", "gpu01", "TP1")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_agent_ends_however_hangdoc_does(hung: Site, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "hangdoc", "watch", "gpu02:1", "--json"]
    look = subprocess.Popen(command, env=hung.environ(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    host = hung.hosts[1]

    def agents() -> list[str]:
        rows = hung.run(host, "ps", "-eo", "args").splitlines()
        return [row for row in rows if "python3 -I -S -c" in row]

    try:
        assert eventually(agents, 20)
        assert look.stdout is not None
        look.stdout.readline()
        look.send_signal(number)
        look.wait(20)
        eventually(lambda: not agents(), 10)
    finally:
        look.kill()
        look.communicate()


def test_a_host_without_a_launch_says_so(hung: Site) -> None:
    done = hangdoc(hung, "diagnose", "gpu02")
    assert (done.returncode, "no vLLM or SGLang launch" in done.stderr) == (2, True)


def test_a_start_is_recorded_over_ssh(two_hosts: Site, tmp_path: Path) -> None:
    with server(two_hosts, two_hosts.hosts[1]):
        name = tmp_path / "good.yaml"
        done = hangdoc(two_hosts, "record-baseline", name, "gpu02")
        assert done.returncode == 0, done.stderr
        assert "sglang" in name.read_text()
        assert told(hangdoc(two_hosts, "diagnose", "gpu02", "--json"), 0)["verdict"] == "ready"


@pytest.mark.slow
def test_the_users_own_configuration_counts(hosts_of: Hosts, short: Path) -> None:
    site = hosts_of(2, sshd={1: "Port 2222"})
    inner = site.hosts[1]
    control = f"ControlMaster auto\n  ControlPath {short}/cm-%r-%n\n  ControlPersist 60\n"
    site.config.write_text(
        f"Host near\n  HostName {site.hosts[0].address}\n  {control}"
        f"Host far\n  HostName {inner.address}\n  HostKeyAlias gpu02\n  Port 2222\n  ProxyJump gpu01\n"
        + site.config.read_text()
    )
    known = site.folder / "known_hosts"
    known.write_text(known.read_text() + f"near {(site.folder / 'host.pub').read_text()}")
    with server(site, inner, hang=True):
        report = told(hangdoc(site, "diagnose", "far", "--json"), 1)
        assert report["culprits"][0]["rank"] == "TP1"
    log = (site.folder / "sshd.gpu02.log").read_text()
    assert site.hosts[0].address in log  # it came from the jump host …
    assert f"Accepted publickey for root from {HUB} " not in log  # … and only from there
    try:
        for _ in range(2):
            done = hangdoc(site, "ps", "near")
            assert "no vLLM or SGLang launch" in done.stderr
        check = subprocess.run(
            ["ssh", "-O", "check", "near"], env=site.environ(), capture_output=True, text=True, check=False
        )
        assert "Master running" in check.stderr  # theirs, as they asked for
        assert (site.folder / "sshd.gpu01.log").read_text().count("Accepted publickey") == 2  # the jump, and one master
    finally:
        subprocess.run(["ssh", "-O", "exit", "near"], env=site.environ(), capture_output=True, check=False)


def test_nothing_is_left_on_a_host_on_which_nothing_can_be_written(hosts_of: Hosts) -> None:
    """Read-only everywhere, no /dev/shm, no place for temporary files: it works, so it wrote nothing."""
    site = hosts_of()
    (host,) = site.hosts
    with server(site, host, hang=True):
        site.run(host, "sh", "-c", "umount /dev/shm; mount -o remount,ro /run; mount -o remount,bind,ro /")
        with pytest.raises(subprocess.CalledProcessError):
            site.run(host, "touch", "/tmp/x")
        before = site.run(host, "ps", "-eo", "pid,args")
        report = told(hangdoc(site, "diagnose", host.name, "--json"), 1)
        assert report["culprits"][0]["rank"] == "TP1"
        rows = [set(text.splitlines()) for text in (before, site.run(host, "ps", "-eo", "pid,args"))]
        assert {row for row in rows[0] ^ rows[1] if "ps -eo" not in row} == set()


def test_py_spy_is_sent_where_there_is_none(hosts_of: Hosts) -> None:
    site = hosts_of()
    (host,) = site.hosts
    with server(site, host, hang=True):
        # the target's own Python has a py-spy beside it here: hide it
        spy = Path(
            subprocess.run(["which", "py-spy"], capture_output=True, text=True, check=False).stdout.strip() or "/"
        )
        beside = Path(sys.executable).with_name("py-spy")
        for one in {beside, spy} - {Path("/")}:
            site.run(host, "mount", "--bind", "/dev/null", one)
        without = told(hangdoc(site, "diagnose", host.name, "--json", "--no-send"), 1)
        assert {one["reason"] for one in without["unseen"] if one["probe"] == "stacks"} == {"tool-missing"}
        report = told(hangdoc(site, "diagnose", host.name, "--json"), 1)
        assert report["culprits"][0]["frame"]["function"].endswith("_repack_twice")
        assert [one for one in report["unseen"] if one["probe"] == "stacks"] == []
        assert json.dumps(report).count("TP1") > 1
