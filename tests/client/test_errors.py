"""What goes wrong between client and server is an error in a sentence, after patience where due."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import ratchet
from ratchet.types import (
    NOT_FOUND,
    ConfigError,
    Conflict,
    InputError,
    NotFound,
    Rollout,
    StoreError,
)
from tests.client.conftest import Call, ScriptedServer, breaks_off, hangs_up, problem, says

Scripted = Callable[..., ScriptedServer]

SECRET = "rk_verysecretverysecretverysecretverysecret"
COUNTS = says(200, '{"counts": {"queued": 3}}')


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InputError),
        (401, ConfigError),
        (403, ConfigError),
        (404, StoreError),
        (409, Conflict),
        (412, Conflict),
        (413, InputError),
        (422, InputError),
        (429, StoreError),
        (500, StoreError),
        (503, StoreError),
    ],
)
def test_a_refusal_is_an_error_with_the_servers_sentence(
    scripted: Scripted, call: Call, status: int, kind: type[Exception]
) -> None:
    server = scripted(problem(status, "The moon is full."))
    with pytest.raises(kind, match=r"The moon is full\.") as caught:
        call(server.url, "rollouts.counts", key=SECRET, patience_s=0.0)
    assert SECRET not in str(caught.value)
    assert len(server.seen) == 1


def test_a_refused_key_is_named_by_where_it_came_from(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_KEY", SECRET)
    server = scripted(problem(401, "The key is unknown to this server."))
    with ratchet.Client(server.url) as client, pytest.raises(ConfigError) as caught:
        client.rollouts.counts()
    assert "from RATCHET_KEY" in str(caught.value)
    assert server.seen[0].headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in repr(client) + str(caught.value) + repr(caught.value)
    assert SECRET not in repr(vars(client)), "nor does it show in what a debugger prints"


@pytest.mark.parametrize(
    "first",
    [
        hangs_up,
        breaks_off,
        problem(503, "The store is unavailable."),
        problem(429, "Too many requests."),
        problem(502, "x"),
        problem(504, "x"),
        says(502, "<html>gateway</html>", content_type="text/html"),
    ],
)
def test_what_may_pass_is_sent_again(scripted: Scripted, call: Call, first: Any) -> None:
    server = scripted(first, first, COUNTS)
    assert call(server.url, "rollouts.counts") == {"queued": 3}
    assert len(server.seen) == 3


def test_a_server_that_says_when_is_asked_no_sooner(scripted: Scripted, call: Call) -> None:
    server = scripted(problem(503, "Later.", retry_after="3600"), COUNTS)
    with pytest.raises(StoreError, match="Later"):
        call(server.url, "rollouts.counts", patience_s=5.0)
    assert len(server.seen) == 1, "an hour is beyond its patience"


@pytest.mark.parametrize(
    "answer",
    [
        says(200, "not JSON"),
        says(200, '{"counts": 3}'),
        says(200, b"\xff\xfe"),
        says(200, "[" * 100_000),
        says(200, ""),
    ],
)
def test_an_answer_that_is_none_is_told_as_such(
    scripted: Scripted, call: Call, answer: Any
) -> None:
    with pytest.raises(StoreError, match="sent an unexpected response"):
        call(scripted(answer).url, "rollouts.counts")


def test_another_kind_of_server_is_told_as_such(scripted: Scripted, call: Call) -> None:
    server = scripted(says(404, "<html>no</html>", content_type="text/html"))
    with pytest.raises(StoreError, match="Check that it is the address of a Ratchet server"):
        call(server.url, "rollouts.counts")


def test_a_server_that_does_not_answer_in_time_is_an_error(scripted: Scripted, call: Call) -> None:
    over = threading.Event()

    def waits(_: BaseHTTPRequestHandler) -> None:
        over.wait(60)

    server = scripted(waits)
    with pytest.raises(StoreError, match=r"no response within 0\.2 s"):
        call(server.url, "rollouts.counts", patience_s=0.0, timeout_s=0.2)
    over.set()


def test_an_answer_that_drips_is_an_error(scripted: Scripted, call: Call) -> None:
    over = threading.Event()

    def drips(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "100000")
        handler.end_headers()
        try:
            while not over.wait(0.05):
                handler.wfile.write(b" ")
        except OSError:
            pass

    server = scripted(drips)
    with pytest.raises(StoreError, match="arrives too slowly"):
        call(server.url, "rollouts.counts", patience_s=0.0, timeout_s=0.4)
    over.set()


def test_an_answer_that_is_huge_is_not_read(
    scripted: Scripted, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet.client.http.MAX_ANSWER_BYTES", 1_000)
    server = scripted(says(200, " " * 2_000))
    with pytest.raises(StoreError, match="larger than 1000 bytes"):
        call(server.url, "rollouts.counts", patience_s=0.0)


def test_a_certificate_that_is_not_trusted_is_told_at_once(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    made += ["-days", "2", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        with pytest.raises(StoreError, match="its certificate is not trusted"):
            call(f"https://127.0.0.1:{server.server_address[1]}", "rollouts.counts")
        # Who signed it can be named, for a server on this machine too.
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with pytest.raises(StoreError, match="HTTP status 501"):
            call(f"https://localhost:{server.server_address[1]}", "rollouts.counts", patience_s=0.0)
    finally:
        server.shutdown()
        server.server_close()


def test_a_path_that_is_unknown_there_is_a_wrong_address_and_no_wrong_input(
    scripted: Scripted, call: Call
) -> None:
    nothing = problem(404, "There is no route /v1/rollouts/counts.")
    other_kind = says(404, '{"detail": "Not Found"}')
    server = scripted(nothing, other_kind)
    for wanted in (["rollouts.counts"], ["experiments.get", "e1"]):
        with pytest.raises(StoreError, match="Check that it is the address of a Ratchet server"):
            call(server.url, *wanted, patience_s=0.0)


def test_what_a_server_says_of_a_thing_it_does_not_have_decides_nothing(
    scripted: Scripted, call: Call
) -> None:
    words = "The path /v1/experiments/e1. begins several."
    gone = says(404, f'{{"type": "{NOT_FOUND}", "detail": "{words}"}}')
    assert call(scripted(gone).url, "experiments.get", "e1") is None
    with pytest.raises(NotFound, match="begins several"):
        call(scripted(gone).url, "candidates.get", "e1")
    with pytest.raises(InputError, match="no such trace"):
        call(scripted(problem(422, "There is no such trace.")).url, "traces.get", "abcd")


def test_what_has_no_json_form_is_refused_before_it_is_sent(scripted: Scripted, call: Call) -> None:
    server = scripted(COUNTS)
    for given in (object(), "\ud800", {1: {2: object}}):
        rollout = Rollout(id="a", queue="q", candidate_id="", task_id="t", input=given)
        with pytest.raises(InputError, match="cannot be converted to JSON"):
            call(server.url, "rollouts.create", [rollout])
    assert not server.seen
