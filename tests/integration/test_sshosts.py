"""The hosts that the tests make are hosts, and are gone afterwards."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sshosts import Site, site


def ssh(made: Site, *words: str) -> str:
    done = subprocess.run(
        ["ssh", "-oBatchMode=yes", *words], env=made.environ(), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_has_its_own_name_processes_network_and_reaches_the_others(two_hosts: Site) -> None:
    for host, other in zip(two_hosts.hosts, reversed(two_hosts.hosts), strict=True):
        assert ssh(two_hosts, host.name, "hostname").strip() == host.name
        assert "sshd" in ssh(two_hosts, host.name, "cat /proc/1/comm")
        assert int(ssh(two_hosts, host.name, "ls /proc | grep -c '^[0-9]'")) < 20
        addresses = ssh(two_hosts, host.name, "ip -br addr")
        assert host.address in addresses
        assert other.address not in addresses
        assert two_hosts.run(host, "bash", "-c", f"exec 3<>/dev/tcp/{other.address}/22 && echo reached") == "reached\n"


def test_nothing_is_left_of_them(tmp_path: Path) -> None:
    interfaces = set(Path("/sys/class/net").iterdir())
    mounts = Path("/proc/self/mounts").read_text()
    with site(tmp_path / "site", 3) as made:
        assert len({ssh(made, one.name, "readlink /proc/self/ns/net") for one in made.hosts}) == 3
        assert set(Path("/sys/class/net").iterdir()) == interfaces
        pids = [one.pid for one in made.hosts]
        ssh(made, "gpu02", "sleep 300 >/dev/null 2>&1 </dev/null & echo started")
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert Path("/proc/self/mounts").read_text() == mounts
    marks = [one for one in _command_lines() if str(tmp_path).encode() in one]
    assert marks == []


def _command_lines() -> list[bytes]:
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(one.read_bytes())
        except OSError:
            continue
    return found
