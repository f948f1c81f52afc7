"""A model's choice, against a real HTTP server that speaks the chat completions' JSON."""

from __future__ import annotations

import importlib.util
import json
import os
import threading
import unittest
import warnings
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from unittest import mock

from stdlib_helper.agent import answer
from stdlib_helper.choice import named_option

from .settings import FULL, stated

QUESTION = "recursively copy a directory tree"


class ModelHandler(BaseHTTPRequestHandler):
    """Answers every request with the server's reply and status, and keeps what it was asked."""

    server: ModelServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(json.loads(body))
        message = {"role": "assistant", "content": self.server.reply}
        payload = json.dumps(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 0,
                "model": "small",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            }
        ).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: a request is no news in a test."""


class ModelServer(HTTPServer):
    """A local endpoint whose model always gives the same reply."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ModelHandler)
        self.reply: str | None = ""
        self.status = 200
        self.requests: list[dict[str, Any]] = []


@unittest.skipIf(importlib.util.find_spec("openai") is None, "openai is not installed")
class ChoiceTest(unittest.TestCase):
    def setUp(self) -> None:
        self.enterContext(stated(FULL))
        with mock.patch.dict(os.environ):
            os.environ.pop("STDLIB_HELPER_MODEL", None)
            self.retrieved = answer(QUESTION)
        self.assertEqual(len(self.retrieved), 10)
        try:
            self.server = ModelServer()
        except PermissionError:
            self.skipTest("nothing may listen here")
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        environment = {
            "STDLIB_HELPER_MODEL": "small",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{self.server.server_port}/v1",
            "OPENAI_API_KEY": "none",
            "NO_PROXY": "127.0.0.1",
        }
        patch = mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)

    def test_the_models_choice_comes_first_and_the_rest_keep_their_order(self) -> None:
        chosen = self.retrieved[3]
        self.server.reply = f"I would take `{chosen}`."
        rest = [name for name in self.retrieved if name != chosen]
        self.assertEqual(answer(QUESTION), [chosen, *rest])

    def test_the_model_sees_the_question_and_the_first_five(self) -> None:
        answer(QUESTION)
        (request,) = self.server.requests
        self.assertEqual(request["model"], "small")
        prompt = request["messages"][0]["content"]
        self.assertIn(QUESTION, prompt)
        for name in self.retrieved[:5]:
            self.assertIn(f"- {name}: ", prompt)
        for name in self.retrieved[5:]:
            self.assertNotIn(f"- {name}: ", prompt)

    def test_a_reply_that_names_no_option_leaves_the_order(self) -> None:
        for reply in ("Use numpy.", "", None):
            self.server.reply = reply
            self.assertEqual(answer(QUESTION), self.retrieved)

    def test_a_failing_call_is_seen_and_leaves_the_order(self) -> None:
        self.server.status = 400
        with self.assertWarnsRegex(RuntimeWarning, "small.*could not be asked"):
            self.assertEqual(answer(QUESTION), self.retrieved)

    def test_an_unreachable_server_is_seen_and_leaves_the_order(self) -> None:
        with (
            mock.patch.dict(os.environ, {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}),
            self.assertWarns(RuntimeWarning),
        ):
            self.assertEqual(answer(QUESTION), self.retrieved)

    def test_no_warning_when_the_model_answers(self) -> None:
        self.server.reply = self.retrieved[0]
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            self.assertEqual(answer(QUESTION), self.retrieved)


class NamedOptionTest(unittest.TestCase):
    def test_a_name_inside_another_is_not_named(self) -> None:
        options = ["json.load", "json.loads"]
        self.assertEqual(named_option("json.loads", options), "json.loads")
        self.assertEqual(named_option("Use json.load.", options), "json.load")
        self.assertIsNone(named_option("simplejson.load", options))

    def test_the_first_that_is_named_counts(self) -> None:
        self.assertEqual(named_option("b.c, not a.b", ["a.b", "b.c"]), "b.c")
