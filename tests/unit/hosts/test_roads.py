"""Command lines as argument lists, and what the last words of ssh mean."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.agent.frames import PIECE, framed
from hangdoc.hosts import lastwords
from hangdoc.hosts.frames import Reader
from hangdoc.hosts.roads import BadRoad, Way, road_here, roads

CHANGED = (
    "@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\n@@@\nIt is possible\nHost key verification failed.\n"
)
DENIED = "root@a: Permission denied (publickey)."


def command(via: str = "", host: str = "gpu01", *, sudo: bool = False) -> tuple[str, ...]:
    (road,) = roads([host], Way(via, sudo))
    return road.command


def test_ssh_never_prompts_ends_its_options_and_waives_no_host_key() -> None:
    words = command()
    assert words[0] == "ssh"
    assert words[words.index("--") + 1 :] == ("gpu01", "sh")
    assert "-oBatchMode=yes" in words
    assert any(word.startswith("-oConnectTimeout=") for word in words)
    assert not any("HostKey" in word or "KnownHosts" in word for word in words)


def test_via_behind_ssh_is_one_quoted_line_and_in_its_place_a_list() -> None:
    assert command("docker exec -i 'my c'")[-1] == "docker exec -i 'my c' sh"
    assert command("docker exec -i c", sudo=True)[-1] == "sudo -n -- docker exec -i c sh"
    assert command("kubectl exec -i {host} --", "pod") == ("kubectl", "exec", "-i", "pod", "--", "sh")
    assert command("k {host}", "pod", sudo=True) == ("k", "pod", "sudo", "-n", "--", "sh")
    assert road_here("here", Way("nsenter -t 1 -a")).command == ("nsenter", "-t", "1", "-a", "sh")
    assert road_here("here", Way(sudo=True)).command == ("sudo", "-n", "--", "sh")


@pytest.mark.parametrize("via", ["'", " ", "a '{host}"])
def test_via_that_is_no_command(via: str) -> None:
    with pytest.raises(BadRoad):
        command(via)
    with pytest.raises(BadRoad):
        road_here("here", Way("k {host}"))


@given(
    st.lists(
        st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="{}"), min_size=1), min_size=1
    )
)
def test_what_ssh_runs_reads_as_the_words_that_were_given(words: list[str]) -> None:
    assert shlex.split(command(shlex.join(words))[-1]) == [*words, "sh"]


@given(st.lists(st.binary(max_size=60).map(lambda raw: raw.hex().encode()), max_size=5), st.integers(1, 400), st.data())
def test_messages_come_out_whole_however_they_are_cut_and_whatever_is_between(
    messages: list[bytes], step: int, data: st.DataObject
) -> None:
    noise = st.text(st.characters(exclude_characters="\x1e\x1f"), max_size=20).map(
        lambda text: text.encode("utf-8", "replace")
    )
    stream = b"".join(data.draw(noise) + framed(one) for one in messages)
    reader, found = Reader(), []
    for at in range(0, len(stream), step):
        found += reader.feed(stream[at : at + step])
    assert found == messages


def test_a_long_message_travels_in_lines_below_64_kb() -> None:
    message = b"x" * (3 * PIECE + 1)
    assert max(map(len, framed(message).split(b"\n"))) < 1 << 16
    assert Reader().feed(framed(message)) == [message]


@pytest.mark.parametrize(
    ("words", "reason", "essence"),
    [
        (CHANGED, "denied", "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!; Host key verification failed."),
        (f"***\nAuthorised use only\n***\n{DENIED}", "denied", DENIED),
        ("one\ntwo\nthree\nfour", "failed", "two; three; four"),
        ("", "failed", ""),
        ("x" * 5000, "failed", "x" * 400),
    ],
)
def test_the_lines_that_matter(words: str, reason: str, essence: str) -> None:
    assert (lastwords.reason(words), lastwords.essence(words)) == (reason, essence)
