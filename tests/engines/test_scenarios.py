"""The scenarios of known causes in real engines ask for what there is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from hangdoc.rules.load import shipped

SCENARIOS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "causes.yaml").read_text())


def test_each_scenario_has_a_name_of_its_own_and_one_reason_to_stop() -> None:
    assert [name for name, times in Counter(one["id"] for one in SCENARIOS).items() if times > 1] == []
    reasons = ("fault", "through", "listen", "args")
    assert [one["id"] for one in SCENARIOS if not any(name in one for name in reasons)] == []


def test_each_scenario_expects_a_stable_cause_of_its_engine() -> None:
    known = {one.id: one for one in shipped()}
    for scenario in SCENARIOS:
        wanted = scenario["expect"]["cause"]
        for name in [wanted] if isinstance(wanted, str) else wanted:
            assert known[name].status == "stable", name
            assert not known[name].engines or scenario["engine"] in known[name].engines, name
