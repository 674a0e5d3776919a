"""Text forms of mountinfo, cgroups, pressure and the kernel log."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.probes import cgroups, hostfacts, kmsg, mounts, readers

MOUNTINFO = (
    "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "40 22 0:50 / /mnt/models\\040nfs rw - nfs4 server:/x rw,hard\n"
    "41 40 0:51 / /mnt/models\\040nfs/hub rw - fuse.s3fs s3fs rw\n"
    "42 22 0:52 / /data rw - fuseblk /dev/sdb rw\n"
    "broken line\n"
)


def test_mounts_of_other_machines_and_programs() -> None:
    found = mounts.parse(MOUNTINFO)
    assert [one.point for one in found if one.remote] == ["/mnt/models nfs", "/mnt/models nfs/hub"]


def test_the_longest_mount_point_above_a_path() -> None:
    found = mounts.parse(MOUNTINFO)
    points = {path: mounts.mount_of(path, found) for path in ("/etc/x", "/mnt/models nfs/hub/a", "/datax/f", "/data")}
    assert {path: one.point for path, one in points.items() if one} == {
        "/etc/x": "/",
        "/mnt/models nfs/hub/a": "/mnt/models nfs/hub",
        "/datax/f": "/",
        "/data": "/data",
    }


@given(st.text(max_size=300))
def test_any_mountinfo_is_no_error(content: str) -> None:
    mounts.parse(content)
    cgroups.paths(content)


def test_cgroup_label_prefers_version_two() -> None:
    assert cgroups.label(cgroups.paths("4:memory:/a\n0::/b/c\n")) == "/b/c memory:/a"
    assert cgroups.label(cgroups.paths("4:memory:/a\n3:cpu,cpuacct:/a\n2:pids:/\n0::/\n")) == "/a"
    assert cgroups.label(cgroups.paths("4:memory:/a\n3:cpu,cpuacct:/x\n0::/\n")) == "/a cpu:/x"
    assert cgroups.label(cgroups.paths("0::/\n")) == "/"


def test_cgroup_folders_innermost_first() -> None:
    mount = mounts.Mount("/sys/fs/cgroup", "cgroup2", "0:1", "/", "rw")
    assert cgroups.folders(mount, "/a/b") == ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]
    inner = mounts.Mount("/cg", "cgroup2", "0:1", "/docker/1", "rw")
    assert cgroups.folders(inner, "/docker/1/x") == ["/cg/x", "/cg"]
    assert cgroups.folders(inner, "/elsewhere") == ["/cg"]
    assert cgroups.folders(mount, "/../x") == ["/sys/fs/cgroup"]


def _write(folder: Path, **files: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return str(folder)


def test_cgroup_version_two_takes_the_tightest_limit_above(tmp_path: Path) -> None:
    inner = _write(
        tmp_path / "pod" / "c",
        memory__max="max\n",
        memory__current="10\n",
        memory__events="low 0\noom 3\noom_kill 2\n",
        cpu__max="max 100000\n",
        cgroup__events="populated 1\nfrozen 1\n",
    )
    outer = _write(
        tmp_path / "pod",
        memory__max="1000\n",
        memory__current="990\n",
        cpu__max="150000 100000\n",
        cpu__stat="usage_usec 5\nthrottled_usec 2500000\n",
    )
    outermost = _write(tmp_path, memory__max="2000\n", memory__current="1500\n", cpu__max="400000 100000\n")
    found = cgroups.facts({"": [inner, outer, outermost]})
    assert (found.frozen, found.memory_max, found.memory_current, found.oom_kills) == (True, 1000, 990, 2)
    assert (found.cpu_max, found.throttled_s) == ("150000 100000", 2.5)


def test_cgroup_version_one(tmp_path: Path) -> None:
    memory = _write(
        tmp_path / "m",
        memory__limit_in_bytes="9223372036854771712\n",
        memory__usage_in_bytes="4096\n",
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    )
    cpu = _write(
        tmp_path / "c",
        cpu__cfs_quota_us="50000\n",
        cpu__cfs_period_us="100000\n",
        cpu__stat="throttled_time 1500000000\n",
    )
    freezer = _write(tmp_path / "f", freezer__state="FROZEN\n")
    found = cgroups.facts({"memory": [memory], "cpu": [cpu], "freezer": [freezer]})
    assert (found.frozen, found.memory_max, found.memory_current, found.oom_kills) == (True, None, 4096, 1)
    assert (found.cpu_max, found.throttled_s) == ("50000 100000", 1.5)
    assert cgroups.facts({}) == type(found)()


def test_pressure_and_meminfo() -> None:
    content = "some avg10=1.50 avg60=0.25 avg300=0.00 total=3\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
    assert hostfacts.pressure(content)["some.avg10"] == 1.5
    assert hostfacts.meminfo("MemTotal:  16 kB\nHugePages_Total:  3\nbad\n") == {
        "MemTotal": 16384,
        "HugePages_Total": 3,
    }


@pytest.mark.parametrize(
    ("text", "kind", "pid"),
    [
        ("Out of memory: Killed process 4711 (python) total-vm:1kB", "oom", 4711),
        ("Memory cgroup out of memory: Killed process 12 (ray::X (y)) total-vm:1kB", "oom", 12),
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=99, name=python, GPU has fallen off the bus.", "xid", 99),
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off", "xid", None),
        ("NVRM: Xid (PCI:0000:3b:00): 45, Ch 00000010", "xid", None),
        ("INFO: task python3:823 blocked for more than 120 seconds.", "hung-task", 823),
    ],
)
def test_kernel_lines_that_matter(text: str, kind: str, pid: int | None) -> None:
    line = kmsg.parse(f"6,1234,5000000,-;{text}\n SUBSYSTEM=x\n")
    assert line is not None
    assert (line.at, line.kind, line.pid, line.text) == (5.0, kind, pid, text)


def test_kernel_lines_young_and_bounded() -> None:
    records = [f"6,{n},{n * 1000000},-;INFO: task a:{n} blocked for more than 120 seconds." for n in range(100)]
    assert kmsg.parse("6,1,1,-;usb connected") is None
    assert [line.pid for line in kmsg.recent(records, now=86400.0 + 90)] == list(range(91, 100))
    assert len(kmsg.recent(records, now=100.0)) == kmsg.LIMIT


def test_container_logs_by_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "HOST_ROOT", str(tmp_path))
    ident = "ab" * 32
    wanted = tmp_path / "var/lib/docker/containers" / ident / f"{ident}-json.log"
    assert readers.container_logs(f"0::/docker/{ident}\n") == []
    wanted.parent.mkdir(parents=True)
    wanted.touch()
    assert readers.container_logs(f"0::/docker/{ident}\n") == [str(wanted)]


def test_container_logs_by_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "HOST_ROOT", str(tmp_path))
    uid = "01234567-89ab-cdef-0123-456789abcdef"
    folder = tmp_path / f"var/log/pods/space_pod_{uid}/vllm"
    folder.mkdir(parents=True)
    for name in ("9.log", "10.log"):
        (folder / name).touch()
    cgroup = f"0::/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice/x\n"
    assert readers.container_logs(cgroup) == [str(folder / "10.log")]
    (folder.parent / "sidecar").mkdir()
    assert readers.container_logs(cgroup) == []


def test_the_tightest_limit_of_processes_counts(tmp_path: Path) -> None:
    outer, inner = tmp_path, tmp_path / "inner"
    inner.mkdir()
    (inner / "pids.max").write_text("max\n")
    (outer / "pids.max").write_text("100\n")
    (outer / "pids.current").write_text("97\n")
    (inner / "cpuset.cpus.effective").write_text("2-3\n")
    found = cgroups.facts({"": [str(inner), str(outer)]})
    assert (found.pids_max, found.pids_current, found.cpuset) == (100, 97, "2-3")
    (outer / "pids.max").write_text("max\n")
    assert cgroups.facts({"": [str(inner), str(outer)]}).pids_max is None
