"""Names of interfaces, hosts and proxies as the libraries read them. Pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangdoc.probes import environ, machine, network, proxies

NAMES = ["lo", "eth0", "eth1", "ib0", "docker0"]


@pytest.mark.parametrize(
    ("value", "found", "missing"),
    [
        ("eth", ["eth0", "eth1"], []),
        ("=eth0", ["eth0"], []),
        ("=eth", [], ["eth"]),
        ("^docker,lo", ["eth0", "eth1", "ib0"], []),
        ("^=eth", ["lo", "eth0", "eth1", "ib0", "docker0"], []),
        ("ens3,ib", ["ib0"], ["ens3"]),
        ("ib0:1", ["ib0"], []),
        ("", [], []),
    ],
)
def test_names_as_nccl_reads_them(value: str, found: list[str], missing: list[str]) -> None:
    assert network.fitting(value, NAMES, prefixes=True) == (found, missing)


def test_names_as_gloo_and_ucx_read_them() -> None:
    assert network.fitting("eth", NAMES, prefixes=False) == ([], ["eth"])
    assert network.fitting("eth0,eth9", NAMES, prefixes=False) == (["eth0"], ["eth9"])
    assert network.fitting("all", NAMES, prefixes=False) == (NAMES, [])


@given(st.text(max_size=40), st.booleans())
def test_what_is_found_is_there(value: str, prefixes: bool) -> None:
    found, missing = network.fitting(value, NAMES, prefixes=prefixes)
    assert set(found) <= set(NAMES)
    assert not set(missing) & set(NAMES)


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("localhost", "localhost", True),
        ("127.0.0.1", "localhost", False),
        ("127.0.0.1", "127.0.0.0/8", True),
        ("127.0.0.1", "127.0.0.1:8000", True),
        ("10.1.2.3", "10.0.0.0/33", False),
        ("10.1.2.3", ".2.3", False),
        ("a.svc", "svc", True),
        ("a.svc", ".svc", True),
        ("a.svc", "*.svc", True),
        ("asvc", "svc", False),
        ("::1", "::1", True),
        ("x", "*", True),
        ("x", "", False),
    ],
)
def test_what_no_proxy_excepts(name: str, pattern: str, expected: bool) -> None:
    assert proxies.excepted(name, [pattern]) is expected


def test_the_small_no_proxy_counts() -> None:
    assert proxies.uncovered({"no_proxy": "localhost", "NO_PROXY": "*"}, []) == ("127.0.0.1",)


def test_without_a_proxy_there_is_nothing_to_tell() -> None:
    assert proxies.variables({"no_proxy": "x", "HOME": "/h"}) == {}
    assert proxies.variables({"HTTPS_PROXY": "http://a:b@c", "no_proxy": "x"}) == {
        "HTTPS_PROXY": "http://a:***@c",
        "no_proxy": "x",
    }


@given(st.text(max_size=60), st.lists(st.text(max_size=20), max_size=5))
def test_no_value_breaks_it(value: str, names: list[str]) -> None:
    assert set(proxies.uncovered({"no_proxy": value}, names)) <= {*proxies.LOCAL, *names}


def test_addresses_of_a_name_in_a_hosts_file() -> None:
    hosts = "127.0.0.1 localhost\n10.0.0.1\tBox.x Box\n10.0.0.2 other # box\n::1 box\nbroken\n"
    assert network.addresses_of(hosts, "box") == ("10.0.0.1", "::1")
    assert network.addresses_of(hosts, "box.x") == ("10.0.0.1", "::1")
    assert network.addresses_of(hosts, "none") == ()
    assert network.addresses_of(hosts, "") == ()


def test_options_of_the_kernel() -> None:
    assert machine.options('a=b iommu=pt iommu="off" amd_iommu numa_balancing=0') == {
        "iommu": "off",
        "amd_iommu": "",
        "numa_balancing": "0",
    }
    assert machine.options('iommu="pt') == {"iommu": '"pt'}  # no closing quote


@pytest.mark.parametrize(
    "name",
    """NCCL_P2P_DISABLE GLOO_SOCKET_IFNAME TP_SOCKET_IFNAME UCX_NET_DEVICES NVSHMEM_HCA_PE_MAPPING AITER_JIT_DIR
    DG_JIT_CACHE_DIR MIOPEN_FIND_MODE HCCL_CONNECT_TIMEOUT MAX_JOBS LD_PRELOAD FLASHINFER_CUBIN_DIR VLLM_HOST_IP HOST_IP
    SGLANG_HOST_IP HF_HUB_OFFLINE TRITON_CACHE_DIR TORCHINDUCTOR_COMPILE_THREADS RAY_memory_monitor_refresh_ms
    OMP_NUM_THREADS MC_TE_METRIC CUDA_DISABLE_CONTROL no_proxy HTTPS_PROXY PYTHONUNBUFFERED""".split(),  # noqa: SIM905
)
def test_variables_that_causes_ask_for_are_allowed(name: str) -> None:
    assert environ.allowed(name)


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "MAIL", "SSH_AUTH_SOCK", "USER", "PS1"])
def test_others_are_not(name: str) -> None:
    assert not environ.allowed(name)


def test_secrets_of_allowed_variables_are_masked() -> None:
    raw = b"VLLM_API_KEY=abcdef\0HF_TOKEN=hf_abcdefghij\0RAY_REDIS_PASSWORD=pw12345\0MC_URL=redis://u:pw@h\0"
    found = environ.parse(raw)
    assert found == {"VLLM_API_KEY": "***", "HF_TOKEN": "***", "RAY_REDIS_PASSWORD": "***", "MC_URL": "redis://u:***@h"}
