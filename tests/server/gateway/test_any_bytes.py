"""Whatever bytes come, from clients or upstreams: no crash, no error of ours, and a span."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.observe.model_apis import MODEL_APIS, ModelApi
from ratchet.observe.model_apis.bounded_json import decoded
from ratchet.store import Store
from tests.server.gateway.conftest import Site, every, exchange
from tests.server.gateway.upstreams import StubUpstream

PATHS = [f"/gateway/bot/{provider}/v1/{path}" for provider, path in MODEL_APIS]

# Words of all dialects, so that what is made looks like a body of theirs here and there.
KNOWN = """
model messages role content type text image_url url tool_calls function name arguments choices
message delta index usage input output instructions system tools parameters data embedding
prompt logprobs token_ids prompt_token_ids logprob finish_reason stop error response item
output_index content_block source input_tokens message_start content_block_start
content_block_delta message_delta tool_use response.created response.completed
response.output_item.added function_call response.output_text.delta input_image reasoning
summary user
"""
WORDS = st.sampled_from(KNOWN.split())
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), WORDS
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(WORDS, st.text(max_size=3)), inner)
    ),
    max_leaves=10,
)
OBJECTS = st.dictionaries(WORDS, VALUES, max_size=5)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, StubUpstream]]:
    """A gateway for many calls."""
    path: Path = tmp_path_factory.mktemp("any") / "ratchet.db"
    upstream = StubUpstream()
    with Store.open(f"sqlite:///{path}") as store:
        site = Site(store, every(upstream, timeout_s=5))
        yield site, upstream
        site.close()
    upstream.close()


def status_of(site: Site, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> int:
    head, _ = exchange(site, path, body, headers)
    return int(head.split()[1]) if head else 0


def recorded(site: Site) -> int:
    site.run(site.gateway._recordings.close(10))  # whatever gathers is handed over
    site.run(site.writer.flush())
    return len(site.store.spans.of(None))


@given(body=st.one_of(st.binary(max_size=300), OBJECTS.map(lambda o: json.dumps(o).encode())))
def test_any_request_passes(wide: tuple[Site, StubUpstream], body: bytes) -> None:
    site, upstream = wide
    upstream.answers({"id": "x"})
    upstream.seen.clear()
    before = recorded(site)
    for path in PATHS:
        assert status_of(site, path, body) == 200
    assert [seen.body for seen in upstream.seen] == [body] * len(PATHS)
    assert recorded(site) == before + len(PATHS)


@given(answer=st.binary(max_size=400), path=st.sampled_from(PATHS))
def test_any_answer_is_relayed_or_a_bad_gateway(
    wide: tuple[Site, StubUpstream], answer: bytes, path: str
) -> None:
    site, upstream = wide
    upstream.sends(answer)
    before = recorded(site)
    status = status_of(site, path, b"{}")
    assert status < 500 or status in (502, 504)
    assert recorded(site) == before + 1


@given(
    pieces=st.lists(
        st.one_of(
            st.binary(min_size=1, max_size=60),
            st.text(min_size=1, max_size=30).map(lambda t: f"data: {t}\n\n".encode()),
            VALUES.map(lambda v: b"data: " + json.dumps(v).encode() + b"\n\n"),
            OBJECTS.map(lambda v: b"data: " + json.dumps(v).encode() + b"\r\n\r\n"),
        ),
        max_size=8,
    ),
    path=st.sampled_from(PATHS),
)
def test_any_stream_passes(wide: tuple[Site, StubUpstream], pieces: list[bytes], path: str) -> None:
    site, upstream = wide
    upstream.streams(pieces)
    before = recorded(site)
    assert unchunked(exchange(site, path)[1]) == b"".join(pieces)
    assert recorded(site) == before + 1


@given(
    value=st.binary(max_size=40).filter(lambda v: not set(v) & {0, 10, 13}),
    query=st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=255), max_size=20),
)
def test_any_header_and_query_passes_or_is_refused(
    wide: tuple[Site, StubUpstream], value: bytes, query: str
) -> None:
    site, upstream = wide
    upstream.answers({})
    odd = {"x-odd": value.decode("latin-1")}
    assert 0 < status_of(site, f"{PATHS[0]}?{query}", b"{}", odd) < 500


def unchunked(body: bytes) -> bytes:
    whole = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            return whole
        whole += body[:length]
        body = body[length + 2 :]


# The dialects themselves: pure functions that take any JSON.


@pytest.mark.parametrize("dialect", MODEL_APIS.values(), ids=[path for _, path in MODEL_APIS])
@given(value=OBJECTS, events=st.lists(OBJECTS, max_size=3), words=st.text(max_size=10))
def test_a_dialect_takes_any_json(
    dialect: ModelApi, value: dict[str, Any], events: list[dict[str, Any]], words: str
) -> None:
    check(dialect.request_attributes(value))
    check(dialect.response_attributes(value))
    assembly = dialect.assembly()
    for one in events:
        assembly.add(one)
    check(dialect.response_attributes(assembly.response()))

    system, user = dialect.prompt_texts(value)
    before = json.dumps(value)
    changed = dialect.with_texts(value, {path: words + text for path, text in system + user})
    assert dialect.prompt_texts(changed) == tuple(
        [(path, words + text) for path, text in texts] for texts in (system, user)
    )
    assert json.dumps(value) == before, "the original was changed"


def check(attributes: dict[str, Any]) -> None:
    for key, value in attributes.items():
        assert key.split(".")[0] in ("gen_ai", "ratchet", "openai")
        if key.endswith((".messages", ".system_instructions", ".definitions")):
            assert isinstance(decoded(value), list)
        json.dumps(value)


def test_a_broken_dialect_costs_attributes_and_not_the_span(
    open_site: Any, upstream: StubUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(request: Any) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr("ratchet.observe.model_apis.chat.request_attributes", broken)
    site = open_site(*every(upstream))
    upstream.answers({"id": "x"})
    assert status_of(site, PATHS[0], b'{"model": "m"}') == 200
    found = site.span().attributes
    assert "a defect" in found["ratchet.recording.error"]
    assert found["gen_ai.response.id"] == "x"
