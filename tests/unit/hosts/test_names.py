"""What a user calls hosts, and what must never become one."""

from __future__ import annotations

import string
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.hosts.names import MOST, BadName, expand

SHELL = set(" \t\n;&|<>()$`\\\"'*?!^#~{}=")


@pytest.mark.parametrize(
    ("words", "hosts"),
    [
        (["gpu01"], ["gpu01"]),
        (["root@gpu[08-10]"], ["root@gpu08", "root@gpu09", "root@gpu10"]),
        (["b,a", "gpu[1-4/2,7]"], ["b", "a", "gpu1", "gpu3", "gpu7"]),
        (["gpu01", "root@gpu01", "gpu01"], ["gpu01"]),
        (["rack[1-2]-node[1-2]"], ["rack1-node1", "rack1-node2", "rack2-node1", "rack2-node2"]),
        (["::1", "root@fe80::1%eth0", "10.0.0.7"], ["::1", "root@fe80::1%eth0", "10.0.0.7"]),
        (["deploy/vllm"], ["deploy/vllm"]),
    ],
)
def test_names_and_node_sets(words: list[str], hosts: list[str]) -> None:
    assert sorted(expand(words)) == sorted(hosts)
    assert expand(words)[0] == hosts[0] or "," in words[0]


@pytest.mark.parametrize(
    "word",
    ["-oProxyCommand=id", "a;id", "$(id)", "`id`", "a b", "gpu*", "a&b", "a!b", "a^b", "gpu[1-2],-x", "gpu[1-2", "x]", "gpu[3-1]",
     "u@", "-l@gpu01", "a@b@c", "", "@", "é", "²", "gpu[1-100000000]", "gpu[1-99999999999999999999]", "a[1-65]b[1-65]",
     "h" * 5000],
)  # fmt: skip
def test_what_is_no_host(word: str) -> None:
    began = time.monotonic()
    with pytest.raises(BadName):
        expand([word])
    assert time.monotonic() - began < 1


def test_no_host_at_all_is_an_error() -> None:
    with pytest.raises(BadName):
        expand([])


@given(st.text(st.sampled_from(string.printable + "é["), max_size=30))
def test_whatever_is_typed_no_name_is_an_option_or_speaks_to_a_shell(word: str) -> None:
    try:
        found = expand([word])
    except BadName:
        return
    assert 0 < len(found) <= MOST
    for name in found:
        assert not name.startswith("-")
        assert not name.rpartition("@")[2].startswith("-")
        assert not SHELL & set(name)


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own group configuration."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("CLUSTERSHELL_CFGDIR", raising=False)
    folder = tmp_path / "clustershell"
    (folder / "groups.d").mkdir(parents=True)
    (folder / "groups.conf").write_text("[Main]\ndefault: mine\nautodir: $CFGDIR/groups.d\n")
    (folder / "groups.d" / "mine.yaml").write_text(
        "mine:\n  gpu: 'gpu[01-03]'\n  none: ''\n  evil: '-oProxyCommand=id'\n"
    )
    return folder


def test_groups_of_the_users_own_configuration(groups: Path) -> None:
    assert expand(["@gpu"]) == ("gpu01", "gpu02", "gpu03")
    assert expand(["root@@gpu"])[0] == "root@gpu01"
    for word in ("@none", "@nobody", "@evil", "@other:gpu"):
        with pytest.raises(BadName):
            expand([word])


def test_samples_that_a_package_installed_never_resolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies in sys.prefix/etc, ~/.local/etc or /etc: only a configuration of the user's own counts."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "empty"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLUSTERSHELL_CFGDIR", raising=False)
    sample = tmp_path / ".local" / "etc" / "clustershell"
    sample.mkdir(parents=True)
    (sample / "groups.conf").write_text(
        "[Main]\ndefault: s\n[s]\nmap: echo gpu01\nall: echo gpu01\nlist: echo compute\n"
    )
    for word in ("@compute", "@adm", "@s:compute", "@all"):
        with pytest.raises(BadName) as caught:
            expand([word])
        assert "groups are read from" in caught.value.hint


def test_a_group_configuration_that_hangs_is_given_up(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hangdoc.hosts.names._GROUPS_S", 0.3)
    (groups / "groups.conf").write_text("[Main]\ndefault: s\n[s]\nmap: exec sleep 5\n")
    with pytest.raises(BadName, match="did not answer"):
        expand(["@gpu"])
