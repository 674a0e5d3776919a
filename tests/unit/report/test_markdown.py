"""Markdown that cannot be broken out of, and that gives nobody away."""

from __future__ import annotations

import re
from dataclasses import replace

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import hostile, hung

from hangdoc.model.report import LogRow
from hangdoc.report import markdown
from hangdoc.report.anonymise import anonymise, scrub_text

anything = st.text(max_size=200)


@given(st.lists(st.text(st.sampled_from("`~ab \n<>|\r"), max_size=30), max_size=5))
def test_no_line_closes_its_fence(lines: list[str]) -> None:
    first, *body, last = markdown.fence(lines).split("\n")
    ticks = first.removesuffix("text")
    assert last == ticks
    assert len(body) == len(lines)
    assert all(ticks not in line for line in body)


@given(anything)
def test_code_span_holds_its_text(text: str) -> None:
    shown = markdown.code(text)
    ticks = re.match("`+", shown)
    assert ticks
    assert (
        ticks.group() not in shown.removeprefix(ticks.group()).removesuffix(ticks.group()).strip("`")
        or text.strip("`") == ""
    )


@given(anything)
def test_inline_text_has_no_live_character(text: str) -> None:
    plain = re.sub(r"@<!-- -->|:<!-- -->//|\\.", "", markdown.inline(text))
    assert not re.search(r"[`*_\[\]<>#|~@$]", plain)


def test_long_logs_are_cut() -> None:
    assert len(markdown.fence("x" * 5000 for _ in range(2000)).splitlines()) == 303


def test_hostile_report_opens_no_tag() -> None:
    shown = markdown.render(hostile())
    outside = re.sub(r"^(`{3,})text\n.*?\n\1$", "", shown, flags=re.MULTILINE | re.DOTALL)
    outside = re.sub(r"(`+)[^`](?:.*?[^`])?\1(?!`)", "", outside)
    tags = set(re.findall(r"(?<!\\)<[^>]*>", outside))
    assert tags <= {"<details>", "</details>", "<summary>", "</summary>", "<sub>", "</sub>", "<!-- -->"}
    assert shown.count("<details>") == len(re.findall(r"^</details>$", shown, re.MULTILINE))


def test_values_of_others_go_through_a_filter() -> None:
    """Values that others may have written must be escaped or fenced."""
    source = markdown._template().environment.loader
    assert isinstance(source, jinja2.PackageLoader)
    text = source.get_source(markdown._template().environment, "report.md.j2")[0]
    for risky in ("summary", "detail", "title", "path", "tail", "advice", "label", "version", "args"):
        for value in re.findall(r"\{\{([^}]*\b" + risky + r"\b[^}]*)\}\}", text):
            assert re.search(r"\| (inline|code|cell|fence)", value), value


def test_names_are_taken_out_everywhere() -> None:
    told = replace(
        hung(),
        summary="gpu-17 cannot reach 10.1.2.3 (see /home/anna/run.log)",
        logs=[
            LogRow(
                "/home/anna/run.log", "file", tail=["HF_TOKEN=hf_abcdefghijklmnop", "https://anna:pw12345@proxy:3128"]
            )
        ],
    )
    shown = markdown.render(told)
    for secret in ("gpu-17", "10.1.2.3", "anna", "hf_abcdefghijklmnop", "pw12345"):
        assert secret not in shown
    assert "host-1 cannot reach address-1" in shown
    assert anonymise(told).culprits[0].host == "host-1"


def test_a_host_that_is_called_like_a_role_takes_no_word_of_the_report_away() -> None:
    told = hung()
    culprit = told.culprits[0]
    for name in (culprit.role, culprit.mechanism, told.verdict):
        alike = replace(told, culprits=[replace(culprit, host=name)], summary=f"no route to {name}")
        safe = anonymise(alike)
        assert safe.verdict == told.verdict
        named = safe.culprits[0]
        assert (named.role, named.mechanism, named.certainty) == (culprit.role, culprit.mechanism, culprit.certainty)
        assert named.host.startswith("host-")
        assert safe.summary == f"no route to {named.host}"
        assert markdown.render(alike)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("connect to 127.0.0.1:8000", "connect to 127.0.0.1:8000"),
        ("from 192.168.7.9:55 and fe80::1", "from address-1:55 and address-2"),
        ("[2026-11-29 16:31:36 TP0] step 16:31:36", "[2026-11-29 16:31:36 TP0] step 16:31:36"),
        ("--api-key sk-abcdefghijkl", "--api-key ***"),
        ("api_key='secret-value'", "api_key='***'"),
        ("'api_key': None, 'tp': 2", "'api_key': None, 'tp': 2"),
        ("Authorization: Bearer abcdefghijk", "Authorization: Bearer ***"),
        ("/root/.cache/x and /Users/bob/y", "~/.cache/x and ~/y"),
        ("max_total_num_tokens=4096, tokenizer_path", "max_total_num_tokens=4096, tokenizer_path"),
        ("sglang::scheduler_TP0", "sglang::scheduler_TP0"),
    ],
)
def test_scrub(text: str, told: str) -> None:
    assert scrub_text(text) == told
