"""Who is admitted, by which key, and what web pages of others may not do."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from ratchet.server import key_cache
from ratchet.server.access import Caller, Gatekeeper, check_attempt
from ratchet.server.http_problems import HttpProblem
from ratchet.server.limits import ServerLimits
from ratchet.server.origin import granted_headers
from ratchet.server.serve import ServeSettings, make_app
from ratchet.store import Store
from ratchet.types import SCOPES, ConfigError, Key, KeyScope, StoreError
from tests.serving import RunningServer

ALL = frozenset(SCOPES)


class Time:
    """A clock that stands until it is moved."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def request(
    key: str | None = None, *, address: str = "10.0.0.1", method: str = "GET", **headers: str
) -> dict[str, Any]:
    """The ASGI scope of a request."""
    sent = [(b"host", b"127.0.0.1:8765")] if "host" not in headers else []
    sent += [(n.replace("_", "-").encode(), v.encode("latin-1")) for n, v in headers.items()]
    if key is not None:
        sent.append((b"authorization", f"Bearer {key}".encode()))
    return {"type": "http", "method": method, "client": (address, 5), "headers": sent}


@asynccontextmanager
async def gatekeeper(
    store: Store, time: Time | None = None, *, open_to_all: bool = False, **options: Any
) -> AsyncIterator[Gatekeeper]:
    """A gatekeeper whose clocks stand still."""
    time = time or Time()
    made = Gatekeeper(store, open_to_all=open_to_all, clock=time, ticks=time, **options)
    yield made
    await made.close()


async def refusal(admitted: Awaitable[Caller]) -> HttpProblem:
    """The problem that a request ends with."""
    with pytest.raises(HttpProblem) as raised:
        await admitted
    return raised.value


def made(store: Store, *scopes: KeyScope, **options: Any) -> tuple[Key, str]:
    return store.keys.create("k", scopes or ("runner",), now=0.0, **options)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(bounded())


def test_a_key_is_taken_from_each_header_that_clients_send_it_in(store: Store) -> None:
    key, secret = made(store, "runner", "read")
    expected = Caller(key.id, frozenset(("runner", "read")), None, "10.0.0.1")

    async def test() -> None:
        async with gatekeeper(store) as keeper:
            for sent in (
                request(secret),
                request(authorization=f"bEARER   {secret} "),
                request(x_api_key=secret),
                request(api_key=secret),
                request("sk-provider", x_api_key=secret),
            ):
                assert await keeper.admit(sent) == expected
            in_the_query = {**request(), "query_string": f"key={secret}".encode()}
            assert (await refusal(keeper.admit(in_the_query))).status == 401
            as_password = request(authorization=f"Basic {secret}")
            assert (await refusal(keeper.admit(as_password))).status == 401

    run(test)


def test_without_a_key_nobody_is_admitted_unless_the_server_is_open(store: Store) -> None:
    async def test() -> None:
        async with gatekeeper(store) as keeper:
            problem = await refusal(keeper.admit(request()))
            assert problem.status == 401
            assert problem.headers["www-authenticate"] == 'Bearer realm="ratchet"'
            assert (await refusal(keeper.admit(request("sk-provider")))).status == 401
        async with gatekeeper(store, open_to_all=True) as keeper:
            nobody = Caller("", ALL, None, "10.0.0.1")
            assert await keeper.admit(request()) == nobody
            assert await keeper.admit(request("sk-provider")) == nobody
            assert await keeper.admit(request(x_api_key="sk-ant-provider")) == nobody

    run(test)


@pytest.mark.parametrize(
    "header",
    ["x_forwarded_for", "forwarded", "x_real_ip", "via", "cf_connecting_ip", "x_forwarded_proto"],
)
def test_what_came_through_a_proxy_needs_a_key_even_by_an_open_server(
    sqlite_url: str, header: str
) -> None:
    async def test() -> None:
        with Store.open(sqlite_url) as store:
            key, shown = made(store)
            async with gatekeeper(store, open_to_all=True) as keeper:
                through = request(address="127.0.0.1", **{header: "127.0.0.1"})
                problem = await refusal(keeper.admit(through))
                assert problem.status == 401
                assert header.replace("_", "-") in problem.detail
                with_key = request(shown, address="127.0.0.1", **{header: "203.0.113.5"})
                assert (await keeper.admit(with_key)).key_id == key.id

    run(test)


def test_an_open_server_whose_store_has_keys_says_at_its_start_that_it_asks_for_none(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    def log_of_start(settings: ServeSettings) -> str:
        caplog.clear()
        make_app(store, settings, {})
        return caplog.text

    with Store.open(sqlite_url) as store:
        assert log_of_start(ServeSettings()) == ""
        key, _ = made(store, "admin")
        assert "The store has keys, but requests to 127.0.0.1 need none" in log_of_start(
            ServeSettings()
        )
        assert "require_key = true" in caplog.text
        assert log_of_start(ServeSettings(require_key=True)) == ""
        store.keys.revoke(key.id, 1.0)
        assert log_of_start(ServeSettings()) == ""


def test_a_server_may_ask_for_keys_on_loopback_too(sqlite_url: str) -> None:
    with Store.open(sqlite_url) as store:
        with pytest.raises(ConfigError, match=r"require_key is set, and the store has no key"):
            make_app(store, ServeSettings(require_key=True), {})
        made(store)
        app = make_app(store, ServeSettings(require_key=True), {})

        async def test() -> None:
            refused = await refusal(app.services.gatekeeper.admit(request()))
            assert refused.status == 401

        run(test)


@pytest.mark.parametrize("open_to_all", [False, True])
def test_a_wrong_expired_or_revoked_key_is_refused_even_by_an_open_server(
    store: Store, open_to_all: bool
) -> None:
    _, expiring = made(store, expires_at=1_000.0)
    revoked, of_revoked = made(store)
    store.keys.revoke(revoked.id, now=1.0)

    async def test() -> None:
        async with gatekeeper(store, open_to_all=open_to_all) as keeper:
            for key, said in (
                (expiring, "has expired"),
                (of_revoked, "was revoked"),
                ("rk_" + "A" * 40, "unknown"),
                (expiring[:-1], "unknown"),
                ("rk_", "unknown"),
                ("ra_", "not issued by this server"),
            ):
                problem = await refusal(keeper.admit(request(key)))
                assert (problem.status, said in problem.detail) == (401, True), problem.detail
                assert 'error="invalid_token"' in problem.headers["www-authenticate"]

    run(test)


def test_a_key_that_one_server_revokes_stops_at_another_within_two_seconds(
    store_url: str,
) -> None:
    with Store.open(store_url) as here, Store.open(store_url) as there:
        key, secret = made(here)

        async def test() -> None:
            time = Time()
            async with gatekeeper(there, time) as other:
                await other.admit(request(secret))
                here.keys.revoke(key.id, now=1.0)
                time.now += 2.0
                assert (await refusal(other.admit(request(secret)))).status == 401

        run(test)


def test_a_key_made_on_one_server_works_at_another_that_had_refused_it(store: Store) -> None:
    secret = "rk_" + "B" * 40

    async def test() -> None:
        time = Time()
        async with gatekeeper(store, time) as keeper:
            assert (await refusal(keeper.admit(request(secret)))).status == 401
            make_known(store, secret)
            time.now += 2.0
            assert (await keeper.admit(request(secret))).key_id

    run(test)


def make_known(store: Store, secret: str) -> None:
    """Give the store a key of a secret that the test has chosen."""
    made(store)
    hashed = hashlib.sha256(secret.encode()).hexdigest()
    store._database.write(lambda c: c.execute(text("UPDATE keys SET hash = :h"), {"h": hashed}))


def test_the_store_is_asked_once_a_second_for_a_key_however_many_requests_come(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(sqlite_url) as store:
        _, secret = made(store)
        asked = counted(store, monkeypatch)

        async def test() -> None:
            time = Time()
            async with gatekeeper(store, time) as keeper:
                await asyncio.gather(*(keeper.admit(request(secret)) for _ in range(50)))
                assert len(asked) == 1
                time.now += 0.9
                await keeper.admit(request(secret))
                assert len(asked) == 1
                time.now += 0.2
                await asyncio.gather(*(keeper.admit(request(secret)) for _ in range(50)))
                assert len(asked) == 2

        run(test)


def counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The secrets that the store is asked for from now on."""
    asked: list[str] = []
    by_secret = store.keys.by_secret

    def ask(secret: str, **options: Any) -> Key | None:
        asked.append(secret)
        return by_secret(secret, **options)

    monkeypatch.setattr(store.keys, "by_secret", ask)
    return asked


def test_guessing_keys_is_refused_before_the_store_is_asked(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(sqlite_url) as store:
        _, secret = made(store)
        asked = counted(store, monkeypatch)

        async def test() -> None:
            time = Time()
            async with gatekeeper(store, time) as keeper:
                await keeper.admit(request(secret, address="6.6.6.6"))
                found = [
                    await refusal(keeper.admit(request(f"rk_{n:040}", address="6.6.6.6")))
                    for n in range(key_cache.WRONG_BURST + 30)
                ]
                assert {p.status for p in found[:-30]} == {401}
                assert {p.status for p in found[-30:]} == {429}
                assert found[-1].headers["retry-after"] == "1"
                assert len(asked) == 1 + key_cache.WRONG_BURST
                # Who was known there before stays so; another address is not affected; the wrong
                # key that was answered for already costs nothing again.
                time.now += 1.0
                await keeper.admit(request(secret, address="6.6.6.6"))
                other = await refusal(keeper.admit(request("rk_" + "C" * 40, address="7.7.7.7")))
                assert other.status == 401
                known_as_wrong = len(asked)
                await refusal(keeper.admit(request("rk_" + "C" * 40, address="7.7.7.7")))
                assert len(asked) == known_as_wrong

        run(test)


def test_right_keys_of_one_address_never_count_as_guesses(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_cache, "WRONG_BURST", 5)
    with Store.open(sqlite_url) as store:
        secrets = [made(store)[1] for _ in range(20)]

        async def test() -> None:
            async with gatekeeper(store) as keeper:
                callers = [await keeper.admit(request(secret)) for secret in secrets]
            assert len({caller.key_id for caller in callers}) == len(secrets)

        run(test)


def test_memory_of_keys_is_bounded(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_cache, "MAX_KEYS", 5)
    with Store.open(sqlite_url) as store:
        secrets = [made(store)[1] for _ in range(8)]

        async def test() -> None:
            async with gatekeeper(store) as keeper:
                for n, secret in enumerate(secrets):
                    await keeper.admit(request(secret))
                    await refusal(keeper.admit(request(f"rk_{n:040}")))
                cache = keeper._keys
                assert len(cache._valid) == len(cache._invalid) == 5
                await keeper.admit(request(secrets[0]))

        run(test)


def test_a_store_that_fails_or_hangs_is_told_as_such_and_not_as_a_wrong_key(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(sqlite_url) as store:
        _, secret = made(store)
        go_on = threading.Event()

        def fail(secret: str, **options: Any) -> Key | None:
            raise StoreError("The store is away.")

        def hang(secret: str, **options: Any) -> Key | None:
            go_on.wait(60)
            return None

        async def test() -> None:
            async with gatekeeper(store) as keeper:
                monkeypatch.setattr(store.keys, "by_secret", fail)
                problem = await refusal(keeper.admit(request(secret)))
                assert problem.status == 503
                assert "away" not in problem.detail  # whoever asks may have no key
                monkeypatch.setattr(store.keys, "by_secret", hang)
                monkeypatch.setattr(key_cache, "LOOK_UP_S", 0.01)
                problem = await refusal(keeper.admit(request(secret)))
                assert (problem.status, problem.headers["retry-after"]) == (503, "1")
                go_on.set()

        run(test)


def test_who_hangs_up_takes_the_answer_from_nobody_else(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(sqlite_url) as store:
        _, secret = made(store)
        go_on = threading.Event()
        by_secret = store.keys.by_secret

        def slow(secret: str, **options: Any) -> Key | None:
            go_on.wait(60)
            return by_secret(secret, **options)

        monkeypatch.setattr(store.keys, "by_secret", slow)

        async def test() -> None:
            async with gatekeeper(store) as keeper:
                first = asyncio.create_task(keeper.admit(request(secret)))
                second = asyncio.create_task(keeper.admit(request(secret)))
                await asyncio.sleep(0)
                first.cancel()
                await asyncio.wait({first})
                go_on.set()
                assert (await second).key_id

        run(test)


def test_when_a_key_was_used_is_stored_at_most_once_a_minute(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = made(store)
    stored: list[Mapping[str, float]] = []
    used = store.keys.used

    def store_used(when: Mapping[str, float]) -> None:
        stored.append(when)
        used(when)

    monkeypatch.setattr(store.keys, "used", store_used)

    async def test() -> None:
        time = Time()
        async with gatekeeper(store, time) as keeper:
            for seconds in (0.0, 10.0, 49.0, 2.0, 30.0):
                time.now += seconds
                await keeper.admit(request(secret))
        assert [list(when.values()) for when in stored] == [[1_000.0], [1_061.0]]
        assert store.keys.list()[0].last_used_at == 1_061.0

    run(test)


def test_an_attempts_token_opens_its_attempt_on_every_server_of_the_store(
    store_url: str,
) -> None:
    with Store.open(store_url) as here, Store.open(store_url) as there:

        async def test() -> None:
            async with gatekeeper(here) as one, gatekeeper(there) as two:
                token = one.token("rollout:1", 3)
                caller = await two.admit(request(token))
                assert caller == Caller("", frozenset(), ("rollout:1", 3), "10.0.0.1")
                check_attempt(caller, "rollout:1", 3, "rollout:1@3")
                for other in (("rollout:1", 2), ("rollout:2", 3), ("", 0)):
                    with pytest.raises(HttpProblem) as raised:
                        check_attempt(caller, *other, "other")
                    assert raised.value.status == 403
                for scopes in (frozenset[KeyScope](("runner",)), ALL, frozenset[KeyScope]()):
                    with pytest.raises(HttpProblem, match="gives access only"):
                        two.allow(caller, scopes)
                check_attempt(Caller(key_id="k", scopes=frozenset(("runner",))), "any", 1, "any@1")

        run(test)


def test_a_token_of_another_store_is_refused(sqlite_url: str, postgres_url: str) -> None:
    with Store.open(sqlite_url) as here, Store.open(postgres_url) as there:

        async def test() -> None:
            async with gatekeeper(here) as one, gatekeeper(there, open_to_all=True) as two:
                problem = await refusal(two.admit(request(one.token("r", 1))))
                assert problem.status == 401

        run(test)


@pytest.fixture(scope="module")
def keeper_alone(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A gatekeeper for tests of tokens alone."""
    path = tmp_path_factory.mktemp("tokens") / "ratchet.db"
    with Store.open(f"sqlite:///{path}") as store:
        yield Gatekeeper(store, open_to_all=False, limits=ServerLimits(burst=1_000_000))


@given(st.text(min_size=1, max_size=300), st.integers(1, 10**6))
def test_every_id_and_fence_comes_back_out_of_its_token(
    keeper_alone: Gatekeeper, rollout_id: str, fence: int
) -> None:
    token = keeper_alone.token(rollout_id, fence)
    assert token.isascii()
    caller = asyncio.run(keeper_alone.admit(request(token)))
    assert caller.attempt == (rollout_id, fence)


@given(st.integers(0, 10**6), st.characters(codec="latin-1", exclude_characters="\x00\r\n"))
def test_a_token_with_any_character_changed_is_refused(
    keeper_alone: Gatekeeper, at: int, character: str
) -> None:
    token = keeper_alone.token("rollout-1", 7)
    at = 3 + at % (len(token) - 3)
    if character == token[at]:
        return
    changed = token[:at] + character + token[at + 1 :]
    problem = asyncio.run(refusal(keeper_alone.admit(request(x_api_key=changed))))
    assert problem.status == 401


@given(st.binary(max_size=200))
def test_bytes_that_look_like_a_key_or_a_token_are_refused_and_break_nothing(
    keeper_alone: Gatekeeper, junk: bytes
) -> None:
    encoded = base64.urlsafe_b64encode(junk)
    for value in (b"ra_" + junk, b"rk_" + junk, b"ra_" + b"A" * 32 + encoded):
        sent = {**request(), "headers": [(b"x-api-key", value)]}
        problem = asyncio.run(refusal(keeper_alone.admit(sent)))
        assert problem.status == 401


def test_scopes_allow_what_they_name_and_admin_everything(sqlite_url: str) -> None:
    with Store.open(sqlite_url) as store:
        keeper = Gatekeeper(store, open_to_all=False)
    for scope in SCOPES:
        for needed in SCOPES:
            caller = Caller(key_id="k", scopes=frozenset((scope,)))
            if scope in (needed, "admin"):
                keeper.allow(caller, frozenset((needed,)))
                continue
            with pytest.raises(HttpProblem) as raised:
                keeper.allow(caller, frozenset((needed,)))
            assert raised.value.status == 403
            assert f"the scope {needed}; yours has {scope}" in raised.value.detail
            assert "insufficient_scope" in raised.value.headers["www-authenticate"]
    keeper.allow(Caller(scopes=frozenset(("read",))), frozenset(("develop", "read")))
    with pytest.raises(HttpProblem, match="scope admin"):
        keeper.allow(Caller(key_id="k", scopes=frozenset(("read",))), frozenset())


def test_limits_belong_to_a_key_and_not_to_its_address(store: Store) -> None:
    first, second = made(store)[1], made(store)[1]

    async def test() -> None:
        limits = ServerLimits(requests_per_s=1.0, burst=3, streams=1)
        async with gatekeeper(store, limits=limits) as keeper:
            for _ in range(3):
                caller = await keeper.admit(request(first))
            problem = await refusal(keeper.admit(request(first)))
            assert (problem.status, problem.headers["retry-after"]) == (429, "1")
            other = await keeper.admit(request(second))
            with keeper.stream(caller):
                with keeper.stream(other):
                    assert keeper.open_streams == 2
                with pytest.raises(HttpProblem) as raised, keeper.stream(caller):
                    pass
                assert raised.value.status == 429
            with keeper.stream(caller):
                pass

    run(test)


def test_tokens_of_attempts_are_limited_like_keys(store: Store) -> None:
    async def test() -> None:
        async with gatekeeper(store, limits=ServerLimits(requests_per_s=1.0, burst=1)) as keeper:
            await keeper.admit(request(keeper.token("a", 1)))
            await keeper.admit(request(keeper.token("b", 1)))
            assert (await refusal(keeper.admit(request(keeper.token("a", 2))))).status == 429

    run(test)


@pytest.mark.parametrize(
    ("headers", "admitted"),
    [
        ({"host": "127.0.0.1:8765"}, True),
        ({"host": "127.9.9.9"}, True),
        ({"host": "LocalHost:80"}, True),
        ({"host": "agent.localhost"}, True),
        ({"host": "[::1]:8765"}, True),
        ({"host": "ratchet.lan:8765"}, True),
        ({"host": "evil.example"}, False),
        ({"host": "127.0.0.1.evil.example:8765"}, False),
        ({"host": "localhost.evil.example"}, False),
        ({"host": "10.0.0.8:8765"}, False),
        ({"host": ""}, False),
        ({"host": "\xff[]:::"}, False),
        ({"origin": "http://127.0.0.1:8765"}, True),
        ({"origin": "https://app.example"}, True),
        ({"origin": "http://127.0.0.1:3000"}, False),
        ({"origin": "http://localhost:8765"}, False),
        ({"origin": "https://app.example.evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": "\xe9"}, False),
        ({"sec_fetch_site": "none"}, True),
        ({"sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "same-site"}, False),
        ({"sec_fetch_site": "cross-site"}, False),
        ({"sec_fetch_site": "cross-site", "origin": "https://app.example"}, True),
    ],
)
def test_an_open_server_is_driven_by_no_page_of_others(
    sqlite_url: str, headers: dict[str, str], admitted: bool
) -> None:
    with Store.open(sqlite_url) as store:
        _, secret = made(store)

        async def test() -> None:
            async with gatekeeper(
                store, open_to_all=True, hosts=["Ratchet.lan"], cors=["https://App.example"]
            ) as keeper:
                sent = request(**headers)
                if admitted:
                    assert (await keeper.admit(sent)).scopes == ALL
                else:
                    assert (await refusal(keeper.admit(sent))).status == 403
                # A page that shows a key was given it; no browser adds one by itself.
                assert (await keeper.admit(request(secret, **headers))).key_id

        run(test)


def test_an_options_request_that_is_no_preflight_is_the_applications() -> None:
    sent = request(method="OPTIONS", origin="https://app.example")
    granted = dict(granted_headers("OPTIONS", sent["headers"], ["https://app.example"]))
    assert b"access-control-expose-headers" in granted
    assert b"access-control-allow-methods" not in granted


@pytest.mark.parametrize("origin", ["*", "app.example", "https://app.example/", "null", ""])
def test_what_is_no_origin_is_not_taken_for_one(sqlite_url: str, origin: str) -> None:
    with Store.open(sqlite_url) as store, pytest.raises(ConfigError, match="not an origin"):
        Gatekeeper(store, open_to_all=True, cors=[origin])


def test_a_real_server_asks_for_a_key_and_notes_who_changed_what(
    serving: Callable[..., RunningServer], store: Store, store_url: str
) -> None:
    admin, secret = made(store, "admin")
    _, of_reader = made(store, "read")
    server = serving(store_url, ServeSettings(host="0.0.0.0", port=0))
    server.url = server.url.replace("0.0.0.0", "127.0.0.1")
    with server.client() as nobody, server.client(of_reader) as reader:
        assert nobody.get("/healthz").status_code == 200
        refused = nobody.get("/v1/rollouts")
        assert refused.status_code == 401
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert nobody.get("/v1/rollouts", params={"key": of_reader}).status_code == 401
        assert reader.get("/v1/rollouts").status_code == 200
        assert reader.get("/v1/keys").status_code == 403
        assert b"ratchet_open_streams 0.0" in reader.get("/metrics").content
    with server.client(secret) as client:
        answer = client.post("/v1/keys", json={"name": "new", "scopes": ["runner"]})
        assert answer.status_code == 201
        another = answer.json()["secret"]
        with server.client(another) as runner:
            claim = {"queue": "q", "worker": "w"}
            assert runner.post("/v1/rollouts/claim", json=claim).json() == {"claims": []}
        id = answer.json()["key"]["id"]
        assert client.delete(f"/v1/keys/{id}").json()["revoked_at"]
        assert client.delete("/v1/keys/unknown").status_code == 404
    server.stop()
    rows = store.audit.list()[0]
    assert [(row.action, row.status) for row in rows if row.key_id == admin.id] == [
        ("DELETE revoke_key", 200),
        ("POST create_key", 201),
    ]
    refusals = [(row.action, row.status) for row in rows if row.status in (401, 403)]
    assert ("GET list_keys", 403) in refusals
    assert {row.address for row in rows} == {"127.0.0.1"}
    assert store.keys.list()[0].last_used_at is not None


def test_a_page_of_a_named_origin_reads_answers_of_a_real_server_and_others_do_not(
    serving: Callable[..., RunningServer], sqlite_url: str
) -> None:
    server = serving(sqlite_url, ServeSettings(port=0, cors=("https://app.example",)))
    ours, others = {"origin": "https://app.example"}, {"origin": "https://evil.example"}
    asks = {"access-control-request-method": "POST"}
    with server.client() as http:
        allowed = http.options("/v1/feedback", headers={**ours, **asks})
        assert allowed.status_code == 204
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"
        for path in ("/v1/rollouts", "/v1/nothing"):
            answer = http.get(path, headers=ours)
            assert answer.headers["access-control-allow-origin"] == "https://app.example"
        for headers in (others, {"host": "evil.example"}):
            refused = http.get("/v1/rollouts", headers=headers)
            assert refused.status_code == 403
            assert "access-control-allow-origin" not in refused.headers
        refused = http.options("/v1/feedback", headers={**others, **asks})
        assert "access-control-allow-origin" not in refused.headers
