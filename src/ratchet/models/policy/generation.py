"""An answer being generated: what was asked, what was written, and when it ends."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ratchet.models.policy.sampling import SampledRow, SamplingRequest
from ratchet.models.policy.tokens import ChatTokenizer

if TYPE_CHECKING:
    from ratchet.models.policy.lora import LoadedAdapter

TopTokens = list[tuple[int, float]]
"""The most probable tokens with their log-probabilities."""


OWN_DISTRIBUTION = SamplingRequest()
"""Tokens drawn from the model's own distribution."""


class Generation:
    """A sequence in the engine.

    Args:
        prompt: Ids of the prompt, at least one.
        adapter: The weights that answer; None for the base. They stay the same to the end.
        version: Content hash of these weights.
        max_tokens: Tokens at most; 0 only reads the prompt.
        sampling: How tokens are chosen.
        seed: Source of its randomness; a random one when left out.
        stop_ids: Tokens that end it.
        stop: Texts that end it.
        tokenizer: Needed for `stop`.
        top: How many of the most probable tokens are kept for each token.
        score_prompt: Keep the log-probabilities of the prompt's own tokens.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        *,
        adapter: LoadedAdapter | None,
        version: str,
        max_tokens: int,
        sampling: SamplingRequest = OWN_DISTRIBUTION,
        seed: int | None = None,
        stop_ids: frozenset[int] = frozenset(),
        stop: Sequence[str] = (),
        tokenizer: ChatTokenizer | None = None,
        top: int = 0,
        score_prompt: bool = False,
    ) -> None:
        self.prompt = list(prompt)
        self.adapter, self.version = adapter, version
        self.max_tokens = max_tokens
        self.sampling = sampling
        self.stop_ids = stop_ids
        self.stop = [text for text in stop if text]
        self.top, self.score_prompt = top, score_prompt
        self.response: list[int] = []
        self.logprobs: list[float] = []
        """One for each token of the response."""
        self.tops: list[TopTokens] = []
        self.prompt_logprobs: list[float] = []
        """One for each token of the prompt except the first, if requested."""
        self.prompt_tops: list[TopTokens] = []
        self.finish_reason: str | None = None
        """stop or length; None while it runs."""
        self.error: Exception | None = None
        """The error that ended it without an answer; None if there was none."""
        self.cancelled = False
        self.cached = 0
        """Number of prompt tokens that were reused from earlier sequences."""
        self.slot = -1
        """Place in the cache; −1 while it waits, and after its end."""
        self.read = 0
        """Number of its tokens in the cache."""
        self.keys: list[int] = []
        """Hashes of the beginnings of its prompt."""
        chance = random.Random(secrets.randbits(64) if seed is None else seed)  # noqa: S311
        self.row = SampledRow(sampling, chance, self.prompt, self.response)
        self._tokenizer = tokenizer
        self._written = IncrementalText(tokenizer) if tokenizer is not None and self.stop else None

    @property
    def length(self) -> int:
        """Number of tokens of prompt and response."""
        return len(self.prompt) + len(self.response)

    @property
    def ended(self) -> bool:
        """Whether the sequence has ended."""
        return self.finish_reason is not None or self.error is not None or self.cancelled

    def add(self, token: int, logprob: float, context: int) -> None:
        """Add the next token; decide whether it is the last."""
        self.response.append(token)
        self.logprobs.append(logprob)
        if token in self.stop_ids or (self._written is not None and self._stops(token)):
            self.finish_reason = "stop"
        elif len(self.response) >= self.max_tokens or self.length >= context:
            self.finish_reason = "length"

    def _stops(self, token: int) -> bool:
        assert self._written is not None
        self._written.add(token)
        return cut_at(self._written.text + self._written.pending(), self.stop) is not None


def cut_at(text: str, stop: Sequence[str]) -> int | None:
    """Where the first of the texts that end an answer begins; None if there is none."""
    positions = [at for sequence in stop if (at := text.find(sequence)) >= 0]
    return min(positions) if positions else None


class IncrementalText:
    """The text of tokens that come one by one.

    A token may be part of a character; text is complete only up to the last whole one.
    """

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._from = self._upto = 0
        self.text = ""

    def add(self, *tokens: int) -> str:
        """Add tokens; return the text that became complete."""
        self._ids.extend(tokens)
        before, after = self._window()
        if len(after) <= len(before) or after.endswith("\ufffd"):
            return ""
        self._from, self._upto = self._upto, len(self._ids)
        new = after[len(before) :]
        self.text += new
        return new

    def pending(self) -> str:
        """The text of the tokens that are not complete yet."""
        before, after = self._window()
        return after[len(before) :]

    def _window(self) -> tuple[str, str]:
        decode = self._tokenizer.decode
        return (
            decode(self._ids[self._from : self._upto]),
            decode(self._ids[self._from :]),
        )
