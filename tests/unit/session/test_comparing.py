"""Which of the shipped good starts a launch is held against, whatever its size and caches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hangdoc.baselines import store
from hangdoc.session.comparing import Baselines
from hangdoc.shipped import FOLDERS

SHIPPED = {path.stem: store.read(path) for path in sorted(FOLDERS["baselines"].glob("*.yaml"))}
ANYWHERE = store.read(FOLDERS["baselines"] / "sglang-0.5.23-cpu-tiny-tp2.yaml")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the user's own."""
    monkeypatch.setattr(store, "user_folder", lambda: tmp_path)


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("ranks", ["1", "2", "4", "16"])
@pytest.mark.parametrize("caches", ["", "cold", "warm"])
def test_every_size_of_every_start_finds_one_or_hears_why_not(name: str, ranks: str, caches: str) -> None:
    then = SHIPPED[name].configuration
    now = replace(then, args={**then.args, "tensor-parallel-size": ranks}, caches=caches)
    beside, why = Baselines().choose(now)
    assert (beside is None) == bool(why)
    assert beside is None or beside.baseline.configuration.engine == then.engine


def test_the_start_itself_is_the_nearest() -> None:
    beside, why = Baselines().choose(ANYWHERE.configuration)
    assert beside is not None, why
    assert beside.baseline.name == ANYWHERE.name
