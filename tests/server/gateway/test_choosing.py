"""Which upstream a call goes to, and what passes on the way there."""

from __future__ import annotations

import pytest

from ratchet.server.gateway.headers import accepted, is_ours, response_headers
from ratchet.server.gateway.pool import proxy_of
from ratchet.server.gateway.relay import _pause
from ratchet.server.gateway.upstream import (
    Upstream,
    check_upstreams,
    choose_upstream,
    provider_of,
    standard_upstreams,
)
from ratchet.types import ConfigError


def upstream(name: str, dialect: str = "openai", **models: str) -> Upstream:
    named = {key.replace("_STAR", "*"): value for key, value in models.items()}
    return Upstream(name=name, dialect=dialect, base_url="http://x/v1", models=named)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("gpt", ("a", "gpt")),
        ("exact", ("b", "sent")),
        ("pre-1", ("c", "prefixed")),
        ("pre-long-1", ("d", "longer")),
        ("pre-exact", ("e", "pre-exact")),
        ("keep/x", ("c", "x")),
        (None, ("a", None)),
        ("", ("a", "")),
    ],
)
def test_the_upstream_that_names_the_model_best_is_taken(
    asked: str | None, expected: tuple[str, str | None]
) -> None:
    several = [
        upstream("a"),
        upstream("other", "anthropic", exact="no"),
        upstream("b", exact="sent"),
        Upstream(
            name="c",
            dialect="openai",
            base_url="http://x",
            models={"pre-*": "prefixed", "keep/*": "*"},
        ),
        Upstream(name="d", dialect="openai", base_url="http://x", models={"pre-long*": "longer"}),
        Upstream(
            name="e", dialect="openai", base_url="http://x", models={"pre-exact": "pre-exact"}
        ),
    ]
    found = choose_upstream(several, "openai", asked)
    assert found is not None
    assert (found[0].name, found[1]) == expected


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


def test_providers_are_named_as_the_conventions_do() -> None:
    assert [provider_of(each) for each in standard_upstreams()] == [
        "openai",
        "anthropic",
        "ollama",
        "gcp.gemini",
    ]
    at = {
        "https://me.openai.azure.com/openai/v1": "azure.ai.openai",
        "https://api.groq.com/openai/v1": "groq",
        "http://127.0.0.1:8000/v1": "openai",
        "https://notapi.groq.com.example.org/v1": "openai",
    }
    for url, name in at.items():
        assert provider_of(Upstream(name="x", dialect="openai", base_url=url)) == name


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ("gzip, deflate, br, zstd", "gzip, deflate"),
        ("br", "identity"),
        ("*", "identity"),
        ("GZIP;q=0.5, identity;q=0", "GZIP;q=0.5, identity;q=0"),
        ("", "identity"),
    ],
)
def test_only_encodings_that_can_be_read_are_asked_for(asked: str, sent: str) -> None:
    assert accepted(asked) == sent


@pytest.mark.parametrize(
    ("value", "ours"),
    [
        (b"Bearer rk_abc", True),
        (b"bearer   ra_abc", True),
        (b"rk_abc", True),
        (b" ra_abc ", True),
        (b"Bearer ratchet", True),
        (b"Bearer sk-abc", False),
        (b"sk-rk_abc", False),
        (b"", False),
    ],
)
def test_our_keys_are_known(value: bytes, ours: bool) -> None:
    assert is_ours(value) is ours


def test_headers_that_no_server_may_send_are_left_out() -> None:
    given = [
        (b"X-Good", b"\xe9"),
        (b"x-bad", b"a\x00b"),
        (b"x bad", b"a"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Content-Length", b"5"),
    ]
    assert response_headers(given) == [(b"x-good", b"\xe9")]


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


def test_pauses_between_tries_grow_and_follow_the_upstream() -> None:
    assert [_pause(tried, None) for tried in range(7)] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    assert _pause(3, "1.5") == 1.5
    assert _pause(3, "-1") == 0.0
    assert _pause(0, "Sat, 01 Jan 2000 00:00:00 GMT") == 0.0
    assert _pause(0, "Fri, 01 Jan 2100 00:00:00 GMT") > 1e6
    assert _pause(1, "soon") == 0.5


@pytest.mark.parametrize(
    "asked",
    [
        "nan",
        "inf",
        "-inf",
        "1e999",
        "9" * 5000,
        "",
        "Mon, 01 Jan 2024 00:00:00 +" + "9" * 20,
        "Mon, 99 Jan 2024 00:00:00 GMT",
    ],
)
def test_a_pause_that_is_none_is_not_waited_for(asked: str) -> None:
    assert _pause(1, asked) == 0.5


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


def test_ollamas_server_is_where_a_named_variable_says() -> None:
    environ = {"OLLAMA_BASE_URL": "http://box:11434/"}
    *_, ollama, _ = standard_upstreams(environ, base_urls=["OLLAMA_BASE_URL"])
    assert (ollama.dialect, ollama.base_url) == ("ollama", "http://box:11434")


@pytest.mark.parametrize("value", ["localhost:4000", "http://[", "ftp://proxy", "http://a b"])
def test_a_variable_without_an_address_is_named(value: str) -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_BASE"):
        standard_upstreams({"OPENAI_API_BASE": value})
