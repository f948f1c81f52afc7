"""Answers as OpenAI's objects, with ids and log-probabilities where vLLM puts them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

from ratchet.models.policy.generation import Generation, IncrementalText, TopTokens, cut_at
from ratchet.models.policy.tokens import ChatTokenizer
from ratchet.models.policy.tool_calls import TOOL_CALL_START, Message, ParsedAnswer, parse_answer


class AnswerWriter:
    """Writes the answers to one request, whole or in chunks.

    Args:
        generations: The answers, in the order of their indices.
        tokenizer: The model's.
        model: The model's name in the answer.
        about: The object `ratchet`: versions of weights, tokenizer and template.
        per_prompt: How many of the answers are to the same prompt.
        tools: The tools of the request.
        stop: Texts that end an answer; they are not part of it.
        token_ids: Whether ids are told.
        logprobs: Whether log-probabilities are told.
        echo: Whether the prompt is a part of the answer; completions only.
    """

    def __init__(
        self,
        generations: Sequence[Generation],
        tokenizer: ChatTokenizer,
        *,
        model: str,
        about: dict[str, str],
        per_prompt: int = 1,
        tools: Sequence[Message] = (),
        stop: Sequence[str] = (),
        token_ids: bool = False,
        logprobs: bool = False,
        echo: bool = False,
    ) -> None:
        self.generations, self._tokenizer = generations, tokenizer
        self._model, self._about, self._per_prompt = model, about, per_prompt
        self._tools, self._stop, self._echo = tools, stop, echo
        self._token_ids, self._logprobs = token_ids, logprobs
        self._id = secrets.token_hex(12)
        self._created = int(time.time())
        self._parsed: dict[int, ParsedAnswer] = {}
        self._streams = [_Stream(IncrementalText(tokenizer)) for _ in generations]

    def parsed(self, generation: Generation) -> ParsedAnswer:
        """The text of a finished answer, without the text that ended it, and its tool calls."""
        parsed = self._parsed.get(id(generation))
        if parsed is None:
            parsed = self._parsed[id(generation)] = parse_answer(
                self._text(generation), self._tools
            )
        return parsed

    def chat(self) -> dict[str, Any]:
        """The whole answer to a request for messages."""
        choices = []
        for index, generation in enumerate(self.generations):
            parsed = self.parsed(generation)
            choice: dict[str, Any] = {
                "index": index,
                "message": self.message(parsed),
                "logprobs": self._chat_logprobs(generation, 0, len(generation.response)),
                "finish_reason": self._reason(generation, parsed),
            }
            if self._token_ids:
                choice["token_ids"] = generation.response
            choices.append(choice)
        out = self._object("chat.completion", "chatcmpl", choices)
        if self._token_ids:
            out["prompt_token_ids"] = self.generations[0].prompt
        return {**out, "usage": self._usage(), "ratchet": self._about}

    def message(self, parsed: ParsedAnswer) -> Message:
        """An answer as a message."""
        out: Message = {"role": "assistant", "content": parsed.content or None}
        if parsed.calls:
            out["tool_calls"] = parsed.calls
        else:
            out["content"] = parsed.content
        return out

    def first_chunk(self) -> dict[str, Any]:
        """The chunk before the first token."""
        choices = [
            {"index": i, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
            for i in range(len(self.generations))
        ]
        out = self._object("chat.completion.chunk", "chatcmpl", choices)
        if self._token_ids:
            out["prompt_token_ids"] = self.generations[0].prompt
        return out

    def chat_chunks(self) -> list[dict[str, Any]]:
        """Stream chunks for the tokens generated since the last call."""
        chunks = []
        for index, (generation, stream) in enumerate(
            zip(self.generations, self._streams, strict=True)
        ):
            if stream.done:
                continue
            begin, end = stream.told, len(generation.response)
            ended = generation.finish_reason is not None
            if begin == end and not ended:
                continue
            delta: dict[str, Any] = {}
            parsed: ParsedAnswer | None = None
            stream.told = end
            stream.text.add(
                *[t for t in generation.response[begin:end] if t not in generation.stop_ids]
            )
            if ended:
                parsed = self.parsed(generation)
                new = parsed.content[len(stream.sent) :]
                if parsed.calls:
                    delta["tool_calls"] = [
                        {"index": i, **call} for i, call in enumerate(parsed.calls)
                    ]
            else:
                new = self._safe(stream.text.text)[len(stream.sent) :]
            if new:
                delta["content"] = new
                stream.sent += new
            if not (delta or ended or self._token_ids or self._logprobs):
                continue
            choice: dict[str, Any] = {
                "index": index,
                "delta": delta,
                "logprobs": self._chat_logprobs(generation, begin, end),
                "finish_reason": None if parsed is None else self._reason(generation, parsed),
            }
            if self._token_ids:
                choice["token_ids"] = generation.response[begin:end]
            chunks.append(self._object("chat.completion.chunk", "chatcmpl", [choice]))
            stream.done = ended
        return chunks

    def last_chunk(self, kind: str, usage: bool) -> dict[str, Any]:
        """The chunk after the last token."""
        prefix = "chatcmpl" if kind.startswith("chat") else "cmpl"
        out = {**self._object(kind, prefix, []), "ratchet": self._about}
        if usage:
            out["usage"] = self._usage()
        return out

    def completion(self) -> dict[str, Any]:
        """The whole answer to a request for completions."""
        choices = []
        for index, generation in enumerate(self.generations):
            text = self._text(generation)
            if self._echo:
                text = self._tokenizer.decode(generation.prompt, special=True) + text
            choice: dict[str, Any] = {
                "index": index,
                "text": text,
                "logprobs": self._completion_logprobs(
                    generation, 0, len(generation.response), self._echo
                ),
                "finish_reason": generation.finish_reason,
            }
            if self._token_ids:
                choice |= {"prompt_token_ids": generation.prompt, "token_ids": generation.response}
            choices.append(choice)
        out = self._object("text_completion", "cmpl", choices)
        if self._token_ids:
            out["prompt_token_ids"] = self.generations[0].prompt
        return {**out, "usage": self._usage(), "ratchet": self._about}

    def completion_chunks(self) -> list[dict[str, Any]]:
        """Stream chunks for the tokens generated since the last call."""
        chunks = []
        for index, (generation, stream) in enumerate(
            zip(self.generations, self._streams, strict=True)
        ):
            begin, end = stream.told, len(generation.response)
            ended = generation.finish_reason is not None
            if stream.done or (begin == end and not ended):
                continue
            stream.text.add(
                *[t for t in generation.response[begin:end] if t not in generation.stop_ids]
            )
            visible = self._text(generation) if ended else self._safe(stream.text.text)
            choice: dict[str, Any] = {
                "index": index,
                "text": visible[len(stream.sent) :],
                "logprobs": self._completion_logprobs(generation, begin, end, False),
                "finish_reason": generation.finish_reason,
            }
            if self._token_ids:
                choice["token_ids"] = generation.response[begin:end]
            out = self._object("text_completion", "cmpl", [choice])
            if self._token_ids and begin == 0:
                choice["prompt_token_ids"] = out["prompt_token_ids"] = generation.prompt
            chunks.append(out)
            stream.told, stream.sent, stream.done = end, visible, ended
        return chunks

    def _object(self, kind: str, prefix: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"{prefix}-{self._id}",
            "object": kind,
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }

    def _usage(self) -> dict[str, Any]:
        tokens = sum(len(generation.prompt) for generation in self.generations[:: self._per_prompt])
        completion_tokens = sum(len(generation.response) for generation in self.generations)
        return {
            "prompt_tokens": tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": tokens + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.generations[0].cached},
        }

    def _text(self, generation: Generation) -> str:
        """An answer's text up to what ended it."""
        ids = [token for token in generation.response if token not in generation.stop_ids]
        text = self._tokenizer.decode(ids)
        cut = cut_at(text, self._stop)
        return text if cut is None else text[:cut]

    def _safe(self, text: str) -> str:
        """The part of an unfinished answer that cannot be the beginning of a stop text."""
        ends = [*self._stop, *([TOOL_CALL_START, "{"] if self._tools else [])]
        if self._tools and text.lstrip().startswith("{"):
            return ""  # possibly a call as Llama 3 writes it
        cut = cut_at(text, [*self._stop, *([TOOL_CALL_START] if self._tools else [])])
        if cut is not None:
            return text[:cut].rstrip() if self._tools else text[:cut]
        withheld = max(
            (n for end in ends for n in range(1, len(end)) if text.endswith(end[:n])), default=0
        )
        text = text[: len(text) - withheld]
        # Space before a call is not part of the text.
        return text.rstrip() if self._tools else text

    def _reason(self, generation: Generation, parsed: ParsedAnswer) -> str | None:
        if parsed.calls and generation.finish_reason == "stop":
            return "tool_calls"
        return generation.finish_reason

    def _token(self, token: int, logprob: float) -> dict[str, Any]:
        text = self._tokenizer.decode([token], special=True)
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}

    def _chat_logprobs(self, generation: Generation, begin: int, end: int) -> dict[str, Any] | None:
        if not self._logprobs:
            return None
        content = []
        for at in range(begin, end):
            item = self._token(generation.response[at], generation.logprobs[at])
            top = generation.tops[at] if generation.top else []
            content.append({**item, "top_logprobs": [self._token(*pair) for pair in top]})
        return {"content": content}

    def _completion_logprobs(
        self, generation: Generation, begin: int, end: int, echo: bool
    ) -> dict[str, Any] | None:
        if not self._logprobs:
            return None
        ids = generation.response[begin:end]
        values: list[float | None] = list(generation.logprobs[begin:end])
        tops: list[TopTokens] = generation.tops[begin:end]
        if echo:
            ids = [*generation.prompt, *ids]
            values = [None, *generation.prompt_logprobs, *values]
            tops = [[], *generation.prompt_tops, *tops]
        texts = [self._tokenizer.decode([token], special=True) for token in ids]
        offsets, at = [], 0
        for text in texts:
            offsets.append(at)
            at += len(text)
        return {
            "tokens": texts,
            "token_logprobs": values,
            "text_offset": offsets,
            "top_logprobs": [
                {self._tokenizer.decode([token], special=True): value for token, value in top}
                for top in tops
            ]
            if generation.top
            else None,
        }


class _Stream:
    __slots__ = ("done", "sent", "text", "told")

    def __init__(self, text: IncrementalText) -> None:
        self.text = text
        self.sent = ""
        """The part of the answer's text that was sent."""
        self.told = 0
        """Number of tokens that were sent."""
        self.done = False
