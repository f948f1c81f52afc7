"""People are told through a webhook, without its address in any message."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from ratchet.autopilot.cycle.notifying import NotificationFailed, message_of, notify
from ratchet.autopilot.cycle_sections import NotifySection
from ratchet.types import ConfigError, Cycle, CycleAction

CYCLE = Cycle(
    id="c1",
    agent="helper",
    state="watch",
    trigger="",
    started_at=1.0,
    entered_at=1.0,
    updated_at=1.0,
    request="https://forge/1",
)
ACTION = CycleAction(
    key="c1/3/0/notify",
    cycle_id="c1",
    kind="notify",
    body={"event": "rollback", "text": "Rolled back: <score> & errors got worse."},
)
SECTION = NotifySection(url_env="HOOK")


class Hook:
    """A webhook that answers with a status."""

    def __init__(self) -> None:
        self.status, self.headers = 200, {}
        self.received: list[tuple[dict[str, str], Any]] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                sent = {name.lower(): value for name, value in self.headers.items()}
                hook.received.append((sent, json.loads(body)))
                self.send_response(hook.status)
                for name, value in hook.headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Silent."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/secret-path"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def send(self, **settings: Any) -> dict[str, Any]:
        section = SECTION.model_copy(update=settings)
        return asyncio.run(notify(ACTION, CYCLE, section, {"HOOK": self.url}))


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_notification_says_what_happened_and_has_a_key(hook: Hook) -> None:
    assert hook.send() == {"sent": "yes"}
    ((headers, body),) = hook.received
    assert headers["idempotency-key"] == body["key"] == ACTION.key
    assert (body["event"], body["agent"], body["cycle"]) == ("rollback", "helper", "c1")
    assert body["request"] == "https://forge/1"


def test_slack_gets_a_text_without_markup() -> None:
    expected = "Ratchet, helper: Rolled back: &lt;score&gt; &amp; errors got worse."
    assert message_of(ACTION, CYCLE, "slack") == {"text": expected}


def test_a_refusal_says_when_to_try_again_and_not_where(hook: Hook) -> None:
    hook.status, hook.headers = 429, {"Retry-After": "120"}
    with pytest.raises(NotificationFailed, match="answered 429") as failure:
        hook.send()
    assert failure.value.retry_at is not None
    assert "secret-path" not in str(failure.value)


def test_a_webhook_that_is_away_is_named_by_its_failure_alone(hook: Hook) -> None:
    hook.server.shutdown()
    hook.server.server_close()
    with pytest.raises(NotificationFailed, match="cannot be reached") as failure:
        hook.send()
    assert str(hook.server.server_port) not in str(failure.value)


def test_without_an_address_nobody_is_told(hook: Hook) -> None:
    assert hook.send(url_env=None) == {"sent": "to nobody"}
    with pytest.raises(ConfigError, match="HOOK of url_env"):
        asyncio.run(notify(ACTION, CYCLE, SECTION, {"HOOK": "secret words"}))
    assert hook.received == []
