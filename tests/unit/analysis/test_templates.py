"""Templates: volatile words never show, names stay, and a template is its own template."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.analysis.stamps import filled, zone
from hangdoc.analysis.templates import KEPT, template

LOGS = sorted((Path(__file__).parents[2] / "data" / "engines").glob("*.log"))

numbers = st.one_of(
    st.integers(0, 10**9).map(str),
    st.floats(0, 1e6, allow_nan=False).map(lambda one: f"{one:.2f}"),
)
hexes = st.one_of(st.from_regex(r"[0-9a-f]{12,40}", fullmatch=True), st.from_regex(r"0x[0-9a-f]{4,16}", fullmatch=True))
paths = st.from_regex(r"(/[a-zA-Z0-9_.-]{1,12}){1,5}", fullmatch=True)
times = st.from_regex(r"[0-2]\d:[0-5]\d:[0-5]\d(,\d\d\d)?", fullmatch=True)
sizes = st.tuples(
    st.floats(0.01, 999).map(lambda one: f"{one:.1f}"), st.sampled_from(["GB", "MB", "KiB", "bytes"])
).map(" ".join)


@given(st.text(max_size=200))
def test_a_template_is_its_own_template(text: str) -> None:
    once = template(text)
    assert template(once) == once
    assert len(once) <= KEPT


@given(st.text(alphabet="ab12 #/|.,:-+?x0gGBsit[<", max_size=60))
def test_a_template_is_its_own_template_also_where_rules_meet(text: str) -> None:
    once = template(text)
    assert template(once) == once


@pytest.mark.parametrize("kind", [numbers, hexes, paths, times, sizes], ids=["number", "hex", "path", "time", "size"])
def test_volatile_words_never_change_the_template(kind: st.SearchStrategy[str]) -> None:
    @given(kind, kind)
    def check(one: str, other: str) -> None:
        form = "Loading shard {} of worker (pid={}) took {}, then = {}."
        assert template(form.format(one, one, one, one)) == template(form.format(other, other, other, other))

    check()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Load weight begin.", "Load weight end."),
        ("Capture cuda graph begin", "Capture cuda graph end"),
        ("rank 0 waits for TCP", "rank 0 waits for UDP"),
        ("Using FlashAttention backend", "Using FlashInfer backend"),
    ],
)
def test_names_stay(one: str, other: str) -> None:
    assert template(one) != template(other)


def test_forms_of_a_progress_bar_are_one_line() -> None:
    bars = [
        "Loading safetensors checkpoint shards:   0% Completed | 0/7 [00:00<?, ?it/s]",
        "Loading safetensors checkpoint shards: 100% Completed | 7/7 [00:00<00:00, 139.12it/s]",
        "Loading safetensors checkpoint shards:  14% Completed | 1/7 [00:02<00:12, 2.1s/it]",
    ]
    assert len({template(one) for one in bars}) == 1


def test_lists_of_other_lengths_are_one_line() -> None:
    assert template("sizes [1, 2, 4, 8]") == template("sizes [1, 2]")


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_lines_of_real_starts_keep_their_words(path: Path) -> None:
    for line in path.read_text().splitlines():
        words = [word for word in template(line).split() if word.isalpha()]
        assert set(words) <= set(line.replace("|", " ").split()) | {"#"} or "#" in template(line)


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e9)), max_size=30), st.floats(1e9, 2e9))
def test_times_are_filled_from_the_next_line_that_has_one(given_times: list[float | None], end: float) -> None:
    found = filled(given_times, end)
    for place, at in enumerate(found):
        assert at == next((one for one in given_times[place:] if one is not None), end)


def test_a_zone_is_whole_quarters_of_an_hour() -> None:
    assert zone([None, 1_000.0, None], 1_000.0 + 7200 + 130) == 7200
    assert zone([None], 5.0) is None
    assert zone([5.0], None) is None


def test_a_long_load_without_times_in_its_lines_is_no_zone() -> None:
    assert zone([1_000.0, None, None], 1_000.0 + 700, started=990.0) == 0.0
    assert zone([1_000.0 - 5 * 3600], 1_000.0, started=990.0) == 5 * 3600
