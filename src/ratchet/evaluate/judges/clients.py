"""The models of a judge: a client per event loop; local models start on first use."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from ratchet.llm import ChatClient, Coach, CoachModel, CoachSettings, CoachUnavailable, Usage
from ratchet.llm.call import configured_or_published
from ratchet.llm.completion import CHARACTERS_A_TOKEN
from ratchet.llm.endpoint import endpoint_of
from ratchet.observe.redaction import Redactor
from ratchet.types import ConfigError, Span

AGENT = "judge"
"""Agent name of judges' traces."""

LOCAL_TOKENS = 1_024
"""Maximum number of tokens in a local model's answer: a small model may not stop by itself."""


class JudgeModels:
    """Opens the chat client of a judge, once per event loop.

    Args:
        models: The jury.
        settings: Limits of the calls.
        folder: Folder that paths of local models are relative to.
        say: Called with sentences for the user.
    """

    def __init__(
        self,
        models: Sequence[CoachModel],
        settings: CoachSettings,
        *,
        folder: Path = Path("."),
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.names = tuple(model.name for model in models)
        self._models = tuple(models)
        self._settings = settings
        self.redactor = Redactor()
        """Applied to requests and traces; a project has its own."""
        self._folder = folder
        self._say = say or (lambda _: None)
        self._open: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Coach] = (
            weakref.WeakKeyDictionary()
        )
        self._served: list[CoachModel] | None = None
        self._environ: dict[str, str] = {}
        self._spans: list[Span] = []
        self._lock = threading.Lock()
        self._stack = ExitStack()
        # Local models stop when the judge is gone, at the latest with the process.
        self._stop = weakref.finalize(self, self._stack.close)

    async def client(self) -> ChatClient:
        """The client of the running event loop.

        Raises:
            ModelUnavailable: A local model cannot be had or started.
            ConfigError: The models are malformed.
        """
        loop = asyncio.get_running_loop()
        client = self._open.get(loop)
        if client is None:
            served = await asyncio.to_thread(self._serve)
            client = self._open.get(loop)
            if client is None:  # no other task has opened one meanwhile
                client = Coach(
                    served,
                    settings=self._settings,
                    environ=self._environ,
                    redactor=self.redactor,
                    agent=AGENT,
                    on_spans=self._spans.extend,
                    notify=self._say,
                )
                self._open[loop] = client
        return client

    def most_usd(self, characters: int) -> float | None:
        """Maximum cost of a request to all models, in dollars; None if a price is unknown.

        Args:
            characters: Length of the request.
        """
        total = 0.0
        for model in self._models:
            limit = model.max_tokens or self._settings.max_tokens
            if limit is None:
                return None
            usage = Usage(input_tokens=-(-characters // CHARACTERS_A_TOKEN), output_tokens=limit)
            try:
                most = configured_or_published(model, endpoint_of(model, os.environ), (), usage)
            except (CoachUnavailable, ConfigError):
                return None
            if most is None:
                return None
            total += most
        return total

    def take_spans(self) -> list[Span]:
        """The spans of the calls that finished since the last call of this function."""
        spans: list[Span] = []
        while self._spans:
            spans.append(self._spans.pop(0))
        return spans

    def _serve(self) -> list[CoachModel]:
        """The models, with the addresses of local ones."""
        with self._lock:
            if self._served is None:
                self._environ = dict(os.environ)
                self._served = [self._one(model) for model in self._models]
            return self._served

    def _one(self, model: CoachModel) -> CoachModel:
        from ratchet.models import is_local, shared_model

        if model.base_url or not is_local(model.name):
            return model
        local = self._stack.enter_context(shared_model(model.name, self._say, self._folder))
        key_env = f"RATCHET_MODEL_KEY_{local.pid}"
        self._environ[key_env] = local.key
        limit = min(model.max_tokens or LOCAL_TOKENS, LOCAL_TOKENS)
        return msgspec.structs.replace(
            model, base_url=local.base_url, key_env=key_env, max_tokens=limit
        )

    def close(self) -> None:
        """Stop the local models; they restart when needed."""
        with self._lock:
            self._served = None
            self._stack.close()
