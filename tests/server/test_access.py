"""Who is admitted, by which key, and what web pages of others may not do."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

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
from tests.clocks import Clock
from tests.serving import RunningServer

Result = TypeVar("Result")

ALL = frozenset(SCOPES)


def request(
    key: str | None = None, *, address: str = "10.0.0.1", method: str = "GET", **headers: str
) -> dict[str, Any]:
    """The ASGI scope of a request."""
    sent = [(b"host", b"127.0.0.1:8765")] if "host" not in headers else []
    sent += [(n.replace("_", "-").encode(), v.encode("latin-1")) for n, v in headers.items()]
    if key is not None:
        sent.append((b"authorization", f"Bearer {key}".encode()))
    return {"type": "http", "method": method, "client": (address, 5), "headers": sent}


class Door:
    """A gatekeeper that requests come to one by one."""

    def __init__(self, keeper: Gatekeeper, runner: asyncio.Runner) -> None:
        self.keeper, self._runner = keeper, runner

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        async def bounded() -> Result:
            async with asyncio.timeout(20):
                return await work

        return self._runner.run(bounded())

    def admit(self, sent: dict[str, Any]) -> Caller:
        return self.run(self.keeper.admit(sent))

    def refusal(self, sent: dict[str, Any]) -> HttpProblem:
        """The problem that a request ends with."""
        with pytest.raises(HttpProblem) as raised:
            self.admit(sent)
        return raised.value

    async def crowd(self, sent: dict[str, Any], count: int) -> None:
        await asyncio.gather(*(self.keeper.admit(sent) for _ in range(count)))


@contextmanager
def gatekeeper(
    store: Store, time: Clock | None = None, *, open_to_all: bool = False, **options: Any
) -> Iterator[Door]:
    """A gatekeeper whose clocks stand still."""
    time = time or clock()
    keeper = Gatekeeper(store, open_to_all=open_to_all, clock=time, ticks=time, **options)
    with asyncio.Runner() as runner:
        yield Door(keeper, runner)
        runner.run(keeper.close())


def clock() -> Clock:
    made = Clock()
    made.now = 1_000.0
    return made


def made(store: Store, *scopes: KeyScope, **options: Any) -> tuple[Key, str]:
    return store.keys.create("k", scopes or ("runner",), now=0.0, **options)


def test_a_key_is_taken_from_each_header_that_clients_send_it_in(disk: Store) -> None:
    key, secret = made(disk, "runner", "read")
    expected = Caller(key.id, frozenset(("runner", "read")), None, "10.0.0.1")
    with gatekeeper(disk) as door:
        for sent in (
            request(secret),
            request(authorization=f"bEARER   {secret} "),
            request(x_api_key=secret),
            request(api_key=secret),
            request("sk-provider", x_api_key=secret),
        ):
            assert door.admit(sent) == expected
        in_the_query = {**request(), "query_string": f"key={secret}".encode()}
        as_password = request(authorization=f"Basic {secret}")
        for sent in (in_the_query, as_password, request("sk-provider"), request()):
            problem = door.refusal(sent)
            assert problem.status == 401
            assert problem.headers["www-authenticate"] == 'Bearer realm="ratchet"'
    with gatekeeper(disk, open_to_all=True) as door:
        nobody = Caller("", ALL, None, "10.0.0.1")
        for sent in (request(), request("sk-provider"), request(x_api_key="sk-ant-provider")):
            assert door.admit(sent) == nobody


@pytest.mark.parametrize(
    "header",
    ["x_forwarded_for", "forwarded", "x_real_ip", "via", "cf_connecting_ip", "x_forwarded_proto"],
)
def test_what_came_through_a_proxy_needs_a_key_even_by_an_open_server(
    disk: Store, header: str
) -> None:
    key, shown = made(disk)
    with gatekeeper(disk, open_to_all=True) as door:
        problem = door.refusal(request(address="127.0.0.1", **{header: "127.0.0.1"}))
        assert problem.status == 401
        assert header.replace("_", "-") in problem.detail
        with_key = request(shown, address="127.0.0.1", **{header: "203.0.113.5"})
        assert door.admit(with_key).key_id == key.id


def test_an_open_server_whose_store_has_keys_says_at_its_start_that_it_asks_for_none(
    disk: Store, caplog: pytest.LogCaptureFixture
) -> None:
    def log_of_start(settings: ServeSettings) -> str:
        caplog.clear()
        make_app(disk, settings, {})
        return caplog.text

    assert log_of_start(ServeSettings()) == ""
    with pytest.raises(ConfigError, match="require_key is set, and the store has no key"):
        make_app(disk, ServeSettings(require_key=True), {})
    key, _ = made(disk, "admin")
    said = log_of_start(ServeSettings())
    assert "The store has keys, but requests to 127.0.0.1 need none" in said
    assert "require_key = true" in said
    assert log_of_start(ServeSettings(require_key=True)) == ""
    disk.keys.revoke(key.id, 1.0)
    assert log_of_start(ServeSettings()) == ""


@pytest.mark.parametrize("open_to_all", [False, True])
def test_a_wrong_expired_or_revoked_key_is_refused_even_by_an_open_server(
    disk: Store, open_to_all: bool
) -> None:
    _, expiring = made(disk, expires_at=1_000.0)
    revoked, of_revoked = made(disk)
    disk.keys.revoke(revoked.id, now=1.0)
    with gatekeeper(disk, open_to_all=open_to_all) as door:
        for key, said in (
            (expiring, "has expired"),
            (of_revoked, "was revoked"),
            ("rk_" + "A" * 40, "unknown"),
            (expiring[:-1], "unknown"),
            ("rk_", "unknown"),
            ("ra_", "not issued by this server"),
        ):
            problem = door.refusal(request(key))
            assert (problem.status, said in problem.detail) == (401, True), problem.detail
            assert 'error="invalid_token"' in problem.headers["www-authenticate"]


def test_a_key_that_one_server_revokes_stops_at_another_within_two_seconds(
    store_url: str,
) -> None:
    with Store.open(store_url) as here, Store.open(store_url) as there:
        key, secret = made(here)
        time = clock()
        with gatekeeper(there, time) as other:
            other.admit(request(secret))
            here.keys.revoke(key.id, now=1.0)
            time.now += 2.0
            assert other.refusal(request(secret)).status == 401


def test_a_key_made_on_one_server_works_at_another_that_had_refused_it(store: Store) -> None:
    secret = "rk_" + "B" * 40
    hashed = hashlib.sha256(secret.encode()).hexdigest()
    time = clock()
    with gatekeeper(store, time) as door:
        assert door.refusal(request(secret)).status == 401
        made(store)
        store._database.write(lambda c: c.execute(text("UPDATE keys SET hash = :h"), {"h": hashed}))
        time.now += 2.0
        assert door.admit(request(secret)).key_id


def test_the_store_is_asked_once_a_second_for_a_key_however_many_requests_come(
    disk: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = made(disk)
    asked = counted(disk, monkeypatch)
    time = clock()
    with gatekeeper(disk, time) as door:
        for seconds, crowd, times in ((0.0, 50, 1), (0.9, 1, 1), (0.2, 50, 2)):
            time.now += seconds
            door.run(door.crowd(request(secret), crowd))
            assert len(asked) == times


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
    disk: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = made(disk)
    asked = counted(disk, monkeypatch)
    time = clock()
    with gatekeeper(disk, time) as door:
        door.admit(request(secret, address="6.6.6.6"))
        found = [
            door.refusal(request(f"rk_{n:040}", address="6.6.6.6"))
            for n in range(key_cache.WRONG_BURST + 30)
        ]
        assert {p.status for p in found[:-30]} == {401}
        assert {p.status for p in found[-30:]} == {429}
        assert found[-1].headers["retry-after"] == "1"
        assert len(asked) == 1 + key_cache.WRONG_BURST
        # Who was known there before stays so; another address is not affected; the wrong key that
        # was answered for already costs nothing again.
        time.now += 1.0
        door.admit(request(secret, address="6.6.6.6"))
        other = request("rk_" + "C" * 40, address="7.7.7.7")
        assert door.refusal(other).status == 401
        known_as_wrong = len(asked)
        door.refusal(other)
        assert len(asked) == known_as_wrong


def test_right_keys_of_one_address_never_count_as_guesses(
    disk: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_cache, "WRONG_BURST", 5)
    secrets = [made(disk)[1] for _ in range(20)]
    with gatekeeper(disk) as door:
        assert len({door.admit(request(secret)).key_id for secret in secrets}) == len(secrets)


def test_memory_of_keys_is_bounded(disk: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_cache, "MAX_KEYS", 5)
    secrets = [made(disk)[1] for _ in range(8)]
    with gatekeeper(disk) as door:
        for n, secret in enumerate(secrets):
            door.admit(request(secret))
            door.refusal(request(f"rk_{n:040}"))
        cache = door.keeper._keys
        assert len(cache._valid) == len(cache._invalid) == 5
        door.admit(request(secrets[0]))


def test_a_store_that_fails_or_hangs_is_told_as_such_and_not_as_a_wrong_key(
    disk: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = made(disk)
    go_on = threading.Event()

    def fail(secret: str, **options: Any) -> Key | None:
        raise StoreError("The store is away.")

    def hang(secret: str, **options: Any) -> Key | None:
        go_on.wait(60)
        return None

    with gatekeeper(disk) as door:
        monkeypatch.setattr(disk.keys, "by_secret", fail)
        problem = door.refusal(request(secret))
        assert problem.status == 503
        assert "away" not in problem.detail  # whoever asks may have no key
        monkeypatch.setattr(disk.keys, "by_secret", hang)
        monkeypatch.setattr(key_cache, "LOOK_UP_S", 0.01)
        problem = door.refusal(request(secret))
        assert (problem.status, problem.headers["retry-after"]) == (503, "1")
        go_on.set()


def test_who_hangs_up_takes_the_answer_from_nobody_else(
    disk: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = made(disk)
    go_on = threading.Event()
    by_secret = disk.keys.by_secret

    def slow(secret: str, **options: Any) -> Key | None:
        go_on.wait(60)
        return by_secret(secret, **options)

    monkeypatch.setattr(disk.keys, "by_secret", slow)
    with gatekeeper(disk) as door:

        async def one_hangs_up() -> None:
            first = asyncio.create_task(door.keeper.admit(request(secret)))
            second = asyncio.create_task(door.keeper.admit(request(secret)))
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait({first})
            go_on.set()
            assert (await second).key_id

        door.run(one_hangs_up())


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
    time = clock()
    with gatekeeper(store, time) as door:
        for seconds in (0.0, 10.0, 49.0, 2.0, 30.0):
            time.now += seconds
            door.admit(request(secret))
    assert [list(when.values()) for when in stored] == [[1_000.0], [1_061.0]]
    assert store.keys.list()[0].last_used_at == 1_061.0


def test_an_attempts_token_opens_its_attempt_on_every_server_of_the_store(
    store_url: str,
) -> None:
    with (
        Store.open(store_url) as here,
        Store.open(store_url) as there,
        gatekeeper(here) as one,
        gatekeeper(there) as two,
    ):
        caller = two.admit(request(one.keeper.token("rollout:1", 3)))
        assert caller == Caller("", frozenset(), ("rollout:1", 3), "10.0.0.1")
        check_attempt(caller, "rollout:1", 3, "rollout:1@3")
        for other in (("rollout:1", 2), ("rollout:2", 3), ("", 0)):
            with pytest.raises(HttpProblem) as raised:
                check_attempt(caller, *other, "other")
            assert raised.value.status == 403
        for scopes in (frozenset[KeyScope](("runner",)), ALL, frozenset[KeyScope]()):
            with pytest.raises(HttpProblem, match="gives access only"):
                two.keeper.allow(caller, scopes)
        check_attempt(Caller(key_id="k", scopes=frozenset(("runner",))), "any", 1, "any@1")


def test_a_token_of_another_store_is_refused(disk: Store, postgres_url: str) -> None:
    with (
        Store.open(postgres_url) as there,
        gatekeeper(disk) as one,
        gatekeeper(there, open_to_all=True) as two,
    ):
        assert two.refusal(request(one.keeper.token("r", 1))).status == 401


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A gatekeeper for tests of tokens alone."""
    path = tmp_path_factory.mktemp("tokens") / "ratchet.db"
    limits = ServerLimits(burst=1_000_000)
    with Store.open(f"sqlite:///{path}") as store, gatekeeper(store, limits=limits) as door:
        yield door


@given(st.text(min_size=1, max_size=300), st.integers(1, 10**6))
def test_every_id_and_fence_comes_back_out_of_its_token(
    alone: Door, rollout_id: str, fence: int
) -> None:
    token = alone.keeper.token(rollout_id, fence)
    assert token.isascii()
    caller = alone.admit(request(token))
    assert caller.attempt == (rollout_id, fence)


@given(st.integers(0, 10**6), st.characters(codec="latin-1", exclude_characters="\x00\r\n"))
def test_a_token_with_any_character_changed_is_refused(
    alone: Door, at: int, character: str
) -> None:
    token = alone.keeper.token("rollout-1", 7)
    at = 3 + at % (len(token) - 3)
    if character == token[at]:
        return
    changed = token[:at] + character + token[at + 1 :]
    problem = alone.refusal(request(x_api_key=changed))
    assert problem.status == 401


@given(st.binary(max_size=200))
def test_bytes_that_look_like_a_key_or_a_token_are_refused_and_break_nothing(
    alone: Door, junk: bytes
) -> None:
    encoded = base64.urlsafe_b64encode(junk)
    for value in (b"ra_" + junk, b"rk_" + junk, b"ra_" + b"A" * 32 + encoded):
        sent = {**request(), "headers": [(b"x-api-key", value)]}
        problem = alone.refusal(sent)
        assert problem.status == 401


def test_a_scope_that_is_missing_is_named(disk: Store) -> None:
    keeper = Gatekeeper(disk, open_to_all=False)
    reader = Caller(key_id="k", scopes=frozenset(("read",)))
    with pytest.raises(HttpProblem, match="the scope runner; yours has read") as raised:
        keeper.allow(reader, frozenset(("runner",)))
    assert "insufficient_scope" in raised.value.headers["www-authenticate"]
    with pytest.raises(HttpProblem, match="scope admin"):
        keeper.allow(reader, frozenset())


def test_limits_belong_to_a_key_and_not_to_its_address(disk: Store) -> None:
    first, second = made(disk)[1], made(disk)[1]
    limits = ServerLimits(requests_per_s=1.0, burst=3, streams=1)
    with gatekeeper(disk, limits=limits) as door:
        for _ in range(3):
            caller = door.admit(request(first))
        problem = door.refusal(request(first))
        assert (problem.status, problem.headers["retry-after"]) == (429, "1")
        other = door.admit(request(second))
        stream = door.keeper.stream
        with stream(caller):
            with stream(other):
                assert door.keeper.open_streams == 2
            with pytest.raises(HttpProblem) as raised, stream(caller):
                pass
            assert raised.value.status == 429
        with stream(caller):
            pass


def test_tokens_of_attempts_are_limited_like_keys(disk: Store) -> None:
    with gatekeeper(disk, limits=ServerLimits(requests_per_s=1.0, burst=1)) as door:
        token = door.keeper.token
        door.admit(request(token("a", 1)))
        door.admit(request(token("b", 1)))
        assert door.refusal(request(token("a", 2))).status == 429


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
    disk: Store, headers: dict[str, str], admitted: bool
) -> None:
    _, secret = made(disk)
    allowed: dict[str, Any] = {"hosts": ["Ratchet.lan"], "cors": ["https://App.example"]}
    with gatekeeper(disk, open_to_all=True, **allowed) as door:
        if admitted:
            assert door.admit(request(**headers)).scopes == ALL
        else:
            assert door.refusal(request(**headers)).status == 403
        # A page that shows a key was given it; no browser adds one by itself.
        assert door.admit(request(secret, **headers)).key_id


def test_an_options_request_that_is_no_preflight_is_the_applications() -> None:
    sent = request(method="OPTIONS", origin="https://app.example")
    granted = dict(granted_headers("OPTIONS", sent["headers"], ["https://app.example"]))
    assert b"access-control-expose-headers" in granted
    assert b"access-control-allow-methods" not in granted


@pytest.mark.parametrize("origin", ["*", "app.example", "https://app.example/", "null", ""])
def test_what_is_no_origin_is_not_taken_for_one(disk: Store, origin: str) -> None:
    with pytest.raises(ConfigError, match="not an origin"):
        Gatekeeper(disk, open_to_all=True, cors=[origin])


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
