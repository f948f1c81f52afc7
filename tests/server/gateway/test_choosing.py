"""Which upstream a call goes to, and what passes on the way there."""

from __future__ import annotations

import pytest

from ratchet.server.gateway.pool import proxy_of
from ratchet.server.gateway.upstream import (
    Upstream,
    check_upstreams,
    choose_upstream,
    standard_upstreams,
)
from ratchet.types import ConfigError


def upstream(name: str, dialect: str = "openai", **models: str) -> Upstream:
    named = {key.replace("_STAR", "*"): value for key, value in models.items()}
    return Upstream(name=name, dialect=dialect, base_url="http://x/v1", models=named)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dialect", "asked", "name"),
    [
        ("openai", "claude-haiku-5-5", "anthropic"),
        ("openai", "gpt-4o-mini", "openai"),
        ("openai", "our-model", "openai"),
        ("openai", "gemini-3-pro", "openai"),
        ("openai", "", "openai"),
        ("openai", "x" * 10_000 + "claude", "openai"),
        ("anthropic", "gpt-6-astra", "openai"),
        ("anthropic", "claude-opus-5", "anthropic"),
    ],
)
def test_a_provider_is_not_asked_for_the_models_of_another(
    dialect: str, asked: str, name: str
) -> None:
    others = ("anthropic",) if dialect == "openai" else ("openai",)
    found = choose_upstream(standard_upstreams(), dialect, asked, others)
    assert found is not None
    assert (found[0].name, found[1]) == (name, asked)


def test_a_router_of_ones_own_may_have_any_model() -> None:
    several = standard_upstreams({"OPENAI_BASE_URL": "http://localhost:4000/v1"})
    found = choose_upstream(several, "openai", "claude-haiku-5-5", ("anthropic",))
    assert found is not None
    assert found[0].name == "openai"


@pytest.mark.parametrize(
    ("several", "name"),
    [
        ([upstream("a"), upstream("c", "anthropic", m="claude")], "c"),
        ([upstream("a", m="own"), upstream("c", "anthropic", m="claude")], "a"),
        ([upstream("a", m_STAR="own"), upstream("c", "anthropic", m="claude")], "a"),
        ([upstream("c", "anthropic", m="claude")], "c"),
        ([upstream("a"), upstream("c", "anthropic")], "a"),
        ([upstream("a"), upstream("c", "gemini", m="gemini")], "a"),
    ],
)
def test_an_upstream_of_another_dialect_serves_the_models_that_it_names(
    several: list[Upstream], name: str
) -> None:
    found = choose_upstream(several, "openai", "m", ("anthropic",))
    assert found is not None
    assert found[0].name == name


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        ({}, None),
        ({"https_proxy": "http://p:1"}, "http://p:1"),
        ({"HTTPS_PROXY": "p:1"}, "http://p:1"),
        ({"http_proxy": "http://p:1"}, None),
        ({"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ({"https_proxy": "http://p:1", "no_proxy": "example.org"}, None),
        ({"https_proxy": "http://p:1", "NO_PROXY": "other, .example.org"}, None),
        ({"https_proxy": "http://p:1", "no_proxy": "*"}, None),
        ({"https_proxy": "http://p:1", "no_proxy": "ample.org"}, "http://p:1"),
    ],
)
def test_proxies_come_from_the_usual_variables(environ: dict[str, str], proxy: str | None) -> None:
    assert proxy_of("https://api.example.org/v1", environ) == proxy


OPENAI = ("https://api.openai.com/v1", "OPENAI_API_KEY")
OTHERS = [
    ("http://127.0.0.1:11434", ""),
    ("https://generativelanguage.googleapis.com", "GEMINI_API_KEY"),
]
ANTHROPIC = ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"OPENAI_BASE_URL": " "}, [OPENAI, ANTHROPIC]),
        ({"OPENAI_BASE_URL": "http://proxy/v1/"}, [("http://proxy/v1", ""), ANTHROPIC]),
        (
            {"OPENAI_API_BASE": "http://proxy/v1", "OPENAI_API_KEY": "k"},
            [("http://proxy/v1", "OPENAI_API_KEY"), ANTHROPIC],
        ),
        (
            {"ANTHROPIC_BASE_URL": "http://proxy", "ANTHROPIC_AUTH_TOKEN": "k"},
            [OPENAI, ("http://proxy/v1", "ANTHROPIC_AUTH_TOKEN")],
        ),
        (
            {"OPENAI_BASE_URL": "http://proxy/v1", "SHOP_URL": "http://shop", "SHOP_KEY": "k"},
            [("http://shop", "SHOP_KEY"), ANTHROPIC],
        ),
        ({"CLAUDE_URL": "http://shop"}, [OPENAI, ("http://shop/v1", "")]),
        # The server's own address, which a live agent uses, is not its upstream.
        ({"OPENAI_BASE_URL": "http://localhost:8765/gateway/a/openai/v1"}, [OPENAI, ANTHROPIC]),
        # A model's own server may have that port while none of Ratchet's does.
        (
            {"OPENAI_BASE_URL": "http://localhost:8765/v1"},
            [("http://localhost:8765/v1", ""), ANTHROPIC],
        ),
    ],
)
def test_without_upstreams_calls_go_where_the_environment_sends_them(
    environ: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    upstreams = standard_upstreams(
        environ, own=("127.0.0.1", 8765), base_urls=("SHOP_URL", "CLAUDE_URL"), keys=("SHOP_KEY",)
    )
    assert [(each.base_url, each.key_env) for each in upstreams] == [*expected, *OTHERS]


def test_a_server_that_would_call_itself_for_a_model_is_refused() -> None:
    upstreams = standard_upstreams({"OPENAI_BASE_URL": "http://localhost:8765/v1"})
    with pytest.raises(ConfigError, match=r"http://localhost:8765/v1 has the address of this"):
        check_upstreams(upstreams, ("127.0.0.1", 8765))
    check_upstreams(upstreams, ("127.0.0.1", 8766))


@pytest.mark.parametrize("value", ["localhost:4000", "http://[", "ftp://proxy", "http://a b"])
def test_a_variable_without_an_address_is_named(value: str) -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_BASE"):
        standard_upstreams({"OPENAI_API_BASE": value})
