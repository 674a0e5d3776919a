"""`hangdoc check` where no launch runs: what a look at one could see."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from hangdoc.cli import check
from hangdoc.hosts.local import LocalChannel
from hangdoc.model.ask import Ask
from hangdoc.model.host import HostFacts
from hangdoc.model.places import REACH, HostPlace
from hangdoc.model.sample import Sample, Unseen


@pytest.fixture(scope="module")
def here() -> Sample:
    channel = LocalChannel()
    try:
        return channel.ask(Ask(1, check.OF_HOSTS, deadline_s=10.0))
    finally:
        channel.close()


def test_this_machine_tells_its_system_and_the_rights_at_hand(here: Sample, capsys: pytest.CaptureFixture[str]) -> None:
    status = check._show_hosts(here)
    said = capsys.readouterr().out
    assert "no vLLM or SGLang launch runs here" in said
    assert f"Linux {os.uname().release}" in said
    assert f"uid {os.geteuid()}" in said
    assert status == (3 if "not seen:" in said else 0)


def test_a_user_who_may_not_trace_is_told_so_before_the_launch(capsys: pytest.CaptureFixture[str]) -> None:
    facts = HostFacts(uid=1000, yama=1)
    sample = Sample(host="a", at=0.0, mono=0.0, boot=0.0, probes=(), host_facts=facts)
    assert check._show_hosts(sample) == 3
    said = capsys.readouterr().out
    assert "not seen: threads (denied): Yama ptrace_scope 1" in said
    assert check._show_hosts(replace(sample, host_facts=replace(facts, uid=0))) == 0
    assert "not seen" not in capsys.readouterr().out


def test_each_host_has_its_table_and_a_lost_one_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    lost = Unseen(REACH, "timed-out", "no answer within 10 s", host="gpu03")
    sample = Sample(
        host="gpu01",
        at=0.0,
        mono=0.0,
        boot=0.0,
        probes=(),
        host_facts=HostFacts(uid=0, kernel="6.1"),
        further_facts={1: HostFacts(uid=1000, yama=1, kernel="5.4")},
        places=(HostPlace("gpu01"), HostPlace("gpu02"), HostPlace("gpu03", lost="timed-out")),
        unseen=[lost],
    )
    assert check._show_hosts(sample) == 3
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("host ")] == ["gpu01", "gpu02"]
    assert any("gpu02: Yama ptrace_scope 1" in line for line in lines)
    assert any("gpu03: no answer within 10 s" in line for line in lines)


def test_where_the_first_host_is_lost_the_others_keep_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    places = (HostPlace("gpu01", lost="timed-out"), HostPlace("gpu02"), HostPlace("gpu03"))
    facts = HostFacts(uid=0, kernel="6.1")
    sample = Sample(host="gpu01", at=0.0, mono=0.0, boot=0.0, probes=(), places=places)
    check._show_hosts(replace(sample, further_facts={1: facts, 2: facts}))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("host ")] == ["gpu02", "gpu03"]
