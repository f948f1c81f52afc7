"""`ratchet serve` as a process: how it starts, what it takes, how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

import ratchet
from ratchet._http import httpx2
from ratchet.store import Store
from ratchet.types import Span, SpanRecord, unpack_ids
from tests import interpreters
from tests.server.api.conftest import report
from tests.server.gateway.upstreams import StubUpstream
from tests.waiting import until

Serve = Callable[..., "Served"]


class Served:
    """A `ratchet serve` that answers."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "ratchet", "serve", "--json", "--port", "0", *arguments]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RATCHET_")}
        self.process = interpreters.Interpreter(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.communicate()[1])
        self.url: str = json.loads(line)["url"]

    def end(self, how: int = signal.SIGTERM) -> tuple[int, str]:
        """End it; its exit code and what it said."""
        self.process.send_signal(how)
        _, said = self.process.communicate(timeout=30)
        return self.process.returncode, said


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts `ratchet serve` in an empty folder."""
    started: list[Served] = []

    def start(*arguments: str) -> Served:
        started.append(Served(tmp_path, *arguments))
        return started[-1]

    yield start
    for served in started:
        if served.process.poll() is None:
            served.process.kill()
            served.process.communicate()


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ratchet", *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RATCHET_")}
    return interpreters.run(command, cwd=folder, env=environment, timeout=60)


def test_it_serves_an_empty_folder_without_any_configuration(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    assert httpx2.get(f"{served.url}/readyz").json()["status"] == "ready"
    assert (tmp_path / ".ratchet" / "ratchet.db").exists()
    assert served.end() == (0, "")


def test_idle_it_takes_at_most_150_megabytes(serve: Serve) -> None:
    served = serve()
    for path in ("/readyz", "/openapi.json", "/metrics", "/v1/rollouts"):
        assert httpx2.get(f"{served.url}{path}").status_code == 200
    megabytes = psutil.Process(served.process.pid).memory_info().rss / 1e6
    print(f"{megabytes:.0f} MB")
    assert megabytes <= 150


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_is_under_way_be_answered(serve: Serve, how: int) -> None:
    served = serve()
    body = b'{"rollouts":[{"id":"a","input":1}]}'
    address = ("127.0.0.1", urlsplit(served.url).port or 0)
    with socket.create_connection(address) as raw:
        raw.settimeout(20)
        raw.sendall(
            b"POST /v1/rollouts HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%s" % (len(body), body[:10])
        )
        # The server has the request once it answers another one.
        assert httpx2.get(f"{served.url}/healthz").status_code == 200
        served.process.send_signal(how)
        raw.sendall(body[10:])
        answer = raw.recv(4096)
        while b"}" not in answer:
            answer += raw.recv(4096)
        assert answer.startswith(b"HTTP/1.1 200")
        assert b'"created":1' in answer
    _, said = served.process.communicate(timeout=30)
    assert (served.process.returncode, said) == (0, "")


def test_what_was_acknowledged_survives_a_kill(serve: Serve) -> None:
    served = serve()
    rollouts = [{"id": f"r{number}", "input": number} for number in range(100)]
    httpx2.post(f"{served.url}/v1/rollouts", json={"rollouts": rollouts})
    served.process.kill()
    served.process.wait()
    again = serve()
    counts = httpx2.get(f"{again.url}/v1/rollouts/counts").json()["counts"]
    assert counts == {"queued": 100}


def test_a_server_killed_amid_indexing_leaves_each_trace_to_be_found_once(
    serve: Serve, tmp_path: Path
) -> None:
    names = [f"trace-{number:04d}" for number in range(3_000)]
    (tmp_path / ".ratchet").mkdir()
    with Store.open(f"sqlite:///{tmp_path}/.ratchet/ratchet.db") as store:
        for first in range(0, len(names), 500):
            spans = [
                Span(trace_id=name, span_id=name, name="answer", start_ns=number, end_ns=number)
                for number, name in enumerate(names[first : first + 500], start=first)
            ]
            store.spans.put([SpanRecord(span=span, agent="bot") for span in spans])

        def figures() -> int:
            return sum(each.traces for each in store.trace_index.figures(0, 1))

        for indexed in (1, 1_000):
            served = serve()
            until(lambda at_least=indexed: figures() >= at_least)
            served.process.kill()
            served.process.communicate()
            assert store.trace_index.state().complete_until is not None, "all was indexed by then"
    with httpx2.Client(base_url=serve().url) as http:
        until(lambda: http.get("/v1/traces?limit=1").json()["complete_until"] is None)
        found, cursor = [], ""
        while cursor is not None:
            page = http.get(f"/v1/traces?search=trace&limit=500{cursor and f'&cursor={cursor}'}")
            found += [each["trace_id"] for each in page.json()["traces"]]
            cursor = page.json()["next_cursor"]
        assert sorted(found) == names
        for name in names[:: len(names) // 50]:
            [only] = http.get("/v1/traces", params={"search": f'"{name}"'}).json()["traces"]
            assert only["trace_id"] == name


def test_tokens_of_a_finished_rollout_survive_a_kill(serve: Serve, tmp_path: Path) -> None:
    upstream = StubUpstream()
    content = {"content": [{"token": "x", "logprob": -0.5}]}
    choice = {"message": {"role": "assistant", "content": "x"}, "token_ids": [3]}
    upstream.answers({"prompt_token_ids": [1, 2], "choices": [{**choice, "logprobs": content}]})
    (tmp_path / "ratchet.toml").write_text(
        f'[upstreams.policy]\ndialect = "openai"\nbase_url = "{upstream.url}"\n'
    )
    served = serve()
    with httpx2.Client(base_url=served.url) as http:
        new = {"id": "r1", "input": 1, "purpose": "train/run"}
        http.post("/v1/rollouts", json={"rollouts": [new]})
        claim = http.post("/v1/rollouts/claim", json={"worker": "w"}).json()["claims"][0]
        asked = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
        headers = {"authorization": f"Bearer {claim['token']}"}
        path = "/gateway/r1@1/openai/v1/chat/completions"
        answer = http.post(path, json=asked, headers=headers).json()
        assert answer == {
            "choices": [{"message": choice["message"], "logprobs": None}],
        }
        http.post("/v1/rollouts/finish", json={"outcomes": [report("r1")]})
    served.process.kill()
    served.process.wait()
    upstream.close()
    with ratchet.Client(serve().url) as client:
        [kept] = client.transitions.of(["r1"])["r1"]
        assert list(unpack_ids(kept.prompt_ids)) == [1, 2]
        assert client.rollouts.get(["r1"])["r1"].status == "succeeded"


def test_it_refuses_every_address_without_a_key_and_takes_it_with_one(
    serve: Serve, tmp_path: Path
) -> None:
    refused = run(tmp_path, "serve", "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 2
    assert "ratchet keys create" in refused.stderr
    made = run(tmp_path, "keys", "create", "ops", "--scope", "admin", "--json")
    secret = json.loads(made.stdout)["secret"]
    url = serve("--host", "0.0.0.0").url.replace("0.0.0.0", "127.0.0.1")
    assert httpx2.get(f"{url}/v1/rollouts").status_code == 401
    headers = {"authorization": f"Bearer {secret}"}
    assert httpx2.get(f"{url}/v1/rollouts", headers=headers).status_code == 200


def test_an_address_in_use_is_a_sentence(serve: Serve, tmp_path: Path) -> None:
    taken = str(urlsplit(serve().url).port)
    refused = run(tmp_path, "serve", "--port", taken)
    assert refused.returncode == 2
    assert "cannot be bound: Address already in use" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("[server]\nprot = 1\n", "Did you mean 'port'?"),
        ("[server.limits]\nbody = 1\n", "Did you mean 'body_mb'?"),
        ("[upstreams.a]\ndialect = 'openai'\n", "upstreams.a.base_url"),
        ("[upstreams.a]\ndialect = 'cohere'\nbase_url = 'http://x'\n", "upstreams.a.dialect"),
        ("[upstreams.a]\nbase_ulr = 'http://x'\ndialect = 'openai'\n", "Did you mean 'base_url'?"),
        ("[retention]\nspans_days = 0\n", "retention.spans_days"),
        ("[server]\ncors = ['*']\n", "'*', which is not an origin"),
    ],
)
def test_a_mistake_in_the_configuration_names_the_key(
    tmp_path: Path, config: str, words: str
) -> None:
    (tmp_path / "ratchet.toml").write_text(config)
    refused = run(tmp_path, "serve", "--port", "0")
    assert refused.returncode == 2
    assert words in " ".join(refused.stderr.split())


def test_a_file_that_names_an_agent_serves_too(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "ratchet.toml").write_text(
        '[agent]\nentry = "nowhere:answer"\n[server]\nhost = "localhost"\n'
    )
    assert urlsplit(serve().url).hostname == "localhost"


def test_https_is_spoken_with_a_certificate(serve: Serve, tmp_path: Path) -> None:
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    served = serve("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    assert served.url.startswith("https://")
    import ssl

    trusted = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    answer: Any = httpx2.get(f"{served.url}/healthz", verify=trusted)
    assert answer.json()["status"] == "ok"
    half = run(tmp_path, "serve", "--port", "0", "--tls-cert", str(tmp_path / "cert.pem"))
    assert "both --tls-cert and --tls-key" in half.stderr


def test_event_streams_that_close_at_once_end_and_let_the_server_stop(serve: Serve) -> None:
    served = serve()
    address = ("127.0.0.1", urlsplit(served.url).port or 0)
    streams = [socket.create_connection(address) for _ in range(200)]
    for stream in streams:
        stream.settimeout(20)
        stream.sendall(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
    for stream in streams:
        assert b"200 OK" in stream.recv(4096)
    # The streams look for events once a second, and are closed while they do.
    looking = time.monotonic() + 1.0
    while time.monotonic() < looking:
        assert httpx2.get(f"{served.url}/healthz").status_code == 200
    for stream in streams:
        stream.close()
    deadline = time.monotonic() + 15
    while "\nratchet_open_streams 0" not in (found := httpx2.get(f"{served.url}/metrics").text):
        assert time.monotonic() < deadline, found
    begun = time.monotonic()
    assert served.end() == (0, "")
    assert time.monotonic() - begun < 10
