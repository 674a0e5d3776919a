"""One launch over two real hosts, reached by ssh: the miniature server with something wrong on one of its nodes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from nodes import PORT, nodes
from sshosts import Site

Hosts = Callable[..., Site]


def hangdoc(site: Site, *words: str, status: int | None = None) -> Any:
    """The JSON of a command, over ssh."""
    done = subprocess.run(
        [sys.executable, "-m", "hangdoc", *words], capture_output=True, text=True, env=site.environ(), timeout=120, check=False
    )  # fmt: skip
    assert status is None or done.returncode == status, done.stderr + done.stdout
    return json.loads(done.stdout.splitlines()[-1])


def culprits(report: Any) -> list[tuple[str, str]]:
    return [(one["host"], one["rank"]) for one in report["culprits"]]


def test_a_rank_that_is_locked_on_the_second_host(hosts_of: Hosts) -> None:
    site = hosts_of(2)
    meet = f"{site.hosts[0].address}:5000"
    with nodes(site, [meet, meet], hang=1) as made:
        planted = made.wait_for_stamp()
        report = hangdoc(site, "diagnose", "gpu[01-02]", "--json", status=1)
        (one,) = report["culprits"]
        assert (one["host"], one["pid"], one["rank"], one["mechanism"]) == ("gpu02", planted, "TP1", "mutex-self")
        assert (report["verdict"], report["confidence"], report["phase"]["id"]) == ("hung", "certain", "post-load")
        assert {row["host"] for row in report["processes"]} == {"gpu01", "gpu02"}
        assert all(row["pid"] < 1 << 22 for row in (*report["processes"], *report["ranks"]))
        launch = hangdoc(site, "ps", "gpu01,gpu02", "--json", status=0)
        assert launch["nodes_wanted"] == 2
        assert [(node["rank"], node["host"]) for node in launch["nodes"]] == [(0, "gpu01"), (1, "gpu02")]
        assert f"gpu02:{planted}" in launch["members"]
        named = hangdoc(site, "diagnose", f"gpu02:{planted}", "gpu01", "--json", "--deep")
        assert culprits(named) == [("gpu02", "TP1")]
        assert f"gpu02:{planted}" in named["cost"]["paused_ms"]  # stopped for its native stack, over there


def test_the_second_node_was_never_started(hosts_of: Hosts) -> None:
    site = hosts_of(2)
    with nodes(site, [f"{site.hosts[0].address}:5000", ""]) as made:
        made.wait_for(0, "Init parallel begin")
        for given in (["gpu01", "gpu02"], ["gpu01"]):
            report = hangdoc(site, "diagnose", *given, "--json", status=3)
            assert (report["verdict"], culprits(report)) == ("suspect", [("gpu01", "TP0")])
            assert report["phase"]["id"] == "distributed-init"
            assert "node rank 1" in report["culprits"][0]["object"]
            assert "never connected" in report["summary"]


def test_the_second_node_was_told_an_address_that_nobody_has(hosts_of: Hosts) -> None:
    site = hosts_of(2)
    with nodes(site, [f"{site.hosts[0].address}:5000", "10.77.0.99:5000"]) as made:
        made.wait_for(1, "Init parallel begin")
        time.sleep(1)
        report = hangdoc(site, "diagnose", "gpu01", "gpu02", "--json", status=3)
        assert (report["verdict"], culprits(report)) == ("suspect", [("gpu02", "TP1")])
        assert report["culprits"][0]["object"] == "10.77.0.99:5000"


def test_a_good_start_is_ready_from_both_sides(hosts_of: Hosts) -> None:
    site = hosts_of(2)
    meet = f"{site.hosts[0].address}:5000"
    with nodes(site, [meet, meet]) as made:
        made.wait_for(0, "ready to roll")
        report = hangdoc(site, "diagnose", "gpu01", "gpu02", "--json", status=0)
        assert report["verdict"] == "ready"
        assert [row["health"] for row in report["ports"] if row["port"] == PORT and row["host"] == "gpu01"] == ["200"]
        other = hangdoc(site, "diagnose", "gpu02", "--json")
        assert other["verdict"] == "ready"
        assert any("node rank 0" in reason for reason in other["reasons"])
        host = site.hosts[1]
        site.unplug(host)
        lost = hangdoc(site, "diagnose", "gpu01", "gpu02", "--json", status=0)  # it serves all the same
        assert [row["host"] for row in lost["unseen"] if row["probe"] == "reach"] == ["gpu02"]


def test_a_host_that_drops_out_of_a_watch_is_told_and_called_again(hosts_of: Hosts) -> None:
    site = hosts_of(2)
    meet = f"{site.hosts[0].address}:5000"
    with nodes(site, [meet, ""]) as made:
        made.wait_for(0, "Init parallel begin")
        words = [sys.executable, "-m", "hangdoc", "watch", "gpu01", "gpu02", "--json", "--timeout", "75"]
        watch = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=site.environ())
        try:
            assert watch.stdout is not None
            seen: list[dict[str, Any]] = []
            plug = (*site.hosts[1].enter, "ip", "link", "set", "eth0")
            for line in watch.stdout:
                event = json.loads(line)
                seen.append(event)
                kind, change = event.get("event"), event.get("data", {}).get("change")
                if (
                    kind == "member"
                    and event["data"]["role"] == "scheduler"
                    and change == "appeared"
                    and made.hang is None
                ):
                    made.hang = 9  # no such rank: only so that this is done once
                    made.start(site.hosts[1], 1, "10.77.0.99:5000")  # a node that starts while the launch is watched
                if kind == "member" and event["data"].get("host") == "gpu02" and event["data"]["role"] == "scheduler":
                    subprocess.run([*plug, "down"], check=True, timeout=20)
                if kind == "host" and change == "lost":
                    subprocess.run([*plug, "up"], check=True, timeout=20)
                if kind == "host" and change == "back":
                    watch.send_signal(signal.SIGINT)
        finally:
            watch.kill()
            watch.communicate(timeout=20)
        assert [event["data"]["change"] for event in seen if event.get("event") == "host"] == ["lost", "back"]
        assert not [event for event in seen if event.get("event") == "member" and event["data"]["change"] == "ended"]
