"""The page of the agent in Node: chat, and feedback that goes straight to Ratchet."""

from __future__ import annotations

import shutil
import uuid
from typing import Any

import pytest

from ratchet._http import httpx2
from tests.examples.room_agent import Site

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def test_the_pages_key_gives_feedback_and_nothing_else(site: Site) -> None:
    turn = site.ask("Which room is free on Friday for 7 people?")
    settings = httpx2.get(f"{site.chat}/settings.json").json()
    assert settings == {"ratchet": site.ratchet, "feedbackKey": site.feedback_key}
    with_key = {"authorization": f"Bearer {settings['feedbackKey']}", "origin": site.chat}
    ours = f"{site.ratchet}/v1/feedback"

    # A browser asks first whether this page may.
    asks = {
        "origin": site.chat,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    granted = httpx2.options(ours, headers=asks)
    assert granted.is_success
    assert granted.headers["access-control-allow-origin"] == site.chat
    assert "POST" in granted.headers["access-control-allow-methods"]
    allowed = granted.headers["access-control-allow-headers"].lower()
    assert "authorization" in allowed
    assert "content-type" in allowed
    refused = httpx2.options(ours, headers={**asks, "origin": "https://elsewhere.example"})
    assert "access-control-allow-origin" not in refused.headers

    statement = {
        "id": uuid.uuid4().hex,
        "kind": "thumbs",
        "value": 0,
        **{name: turn[name] for name in ("trace_id", "span_id", "conversation_id")},
    }
    for stored in (1, 0):  # the second time it is known
        given = httpx2.post(ours, headers=with_key, json={"feedback": [statement]})
        assert given.json() == {"stored": stored}
        assert given.headers["access-control-allow-origin"] == site.chat
    (found,) = site.feedback(turn["conversation_id"])
    assert (found.kind, found.value) == ("thumbs", 0)
    assert (found.trace_id, found.span_id) == (turn["trace_id"], turn["span_id"])

    assert httpx2.post(ours, json={"feedback": [statement]}).status_code == 401
    for path in ("feedback", "spans?agent=room-agent", "rollouts", "keys"):
        read = httpx2.get(f"{site.ratchet}/v1/{path}", headers=with_key)
        assert read.status_code == 403, path
    for path in ("spans", "traces", "scores"):
        sent = httpx2.post(f"{site.ratchet}/v1/{path}", headers=with_key, json={})
        assert sent.status_code == 403, path


def test_the_page_learns_no_other_secret(site: Site) -> None:
    for path in ("/", "/chat.js", "/style.css", "/settings.json", "/server.js", "/../server.js"):
        answer = httpx2.get(f"{site.chat}{path}")
        assert answer.status_code == (404 if "server" in path else 200)
        assert site.provider_key not in answer.text
        assert site.ingest_key not in answer.text
        policy = answer.headers["content-security-policy"]
        assert policy.endswith(f"connect-src 'self' {site.ratchet}")


def chromium() -> str:
    """A browser of this machine; the test is skipped where there is none."""
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    pytest.skip("Chromium is not installed")


def test_a_person_chats_in_a_browser_and_gives_feedback(site: Site) -> None:
    from playwright import sync_api  # a second of imports, for this test alone

    path = chromium()
    complaints: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        page = browser.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(site.chat)
        log = page.get_by_role("log", name="Conversation")
        turns: list[dict[str, str]] = []

        def ask(question: str) -> Any:
            page.get_by_label("Your question").fill(question)
            with page.expect_response(f"{site.chat}/api/chat") as caught:
                page.keyboard.press("Enter")
            turns.append(caught.value.json())
            log.get_by_text(turns[-1]["answer"]).wait_for()
            return log.get_by_role("listitem").last

        answer = ask("Which room is free on Tuesday for 6 people?")
        answer.get_by_role("button", name="Helpful", exact=True).click()
        answer.get_by_text("Thank you.").wait_for()
        pressed = page.get_by_role("button", pressed=True)
        assert pressed.all_inner_texts() == ["👍 Helpful"]

        # The rest without a mouse.
        answer = ask("And for 15?")
        answer.get_by_role("button", name="Not helpful").press("Enter")
        answer.get_by_text("Thank you.").wait_for()
        answer.get_by_text("Correct it").press("Enter")
        field = answer.get_by_label("What it should have said")
        field.fill("Elm, but its stage is being repaired.")
        with page.expect_response(f"{site.ratchet}/v1/feedback"):
            answer.get_by_role("button", name="Send correction").press("Space")
        field.wait_for(state="hidden")
        browser.close()
    assert complaints == []

    one, two = turns
    assert one["conversation_id"] == two["conversation_id"]
    given = site.feedback(one["conversation_id"])
    assert [(each.kind, each.value, each.trace_id, each.span_id) for each in given] == [
        ("thumbs", 1, one["trace_id"], one["span_id"]),
        ("thumbs", 0, two["trace_id"], two["span_id"]),
        ("correction", None, two["trace_id"], two["span_id"]),
    ]
    assert given[-1].content == "Elm, but its stage is being repaired."
    spans = site.trace(one["trace_id"], 4) + site.trace(two["trace_id"], 4)
    assert {span.attributes["gen_ai.conversation.id"] for span in spans} == {one["conversation_id"]}
