"""Lets `model_apis` read the answers that OpenInference's instrumentors record.

The instrumentors merge tool calls of a stream that have no index or the same one, drop parts that
they do not know, and read the usage of one provider alone. What is read here has the names of the
span model, which precede theirs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from ratchet.observe.instruments.client_calls import add_event, plain
from ratchet.observe.instruments.import_hook import load
from ratchet.observe.model_apis import ModelApi, chat, completions, messages, responses
from ratchet.types.trace import BROKEN_OFF

_ACCUMULATORS = {
    "_ChatCompletionAccumulator": chat,
    "_CompletionAccumulator": completions,
    "_ResponsesAccumulator": responses,
}
"""Classes of the instrumentor that read a stream, and the API that each reads."""

_ANSWERS = {"ChatCompletion": chat, "Completion": completions, "Response": responses}
"""The same by class of an answer that is not streamed."""

_OUTPUT = "gen_ai.output.messages"


def read_openai(provider: Any) -> None:
    """Add what `model_apis` reads from an OpenAI answer to its span.

    Args:
        provider: Not used.
    """
    try:
        module = load("openinference.instrumentation.openai._request")
    except ImportError:  # another recorder is in use
        return
    for name, api in _ACCUMULATORS.items():
        original = getattr(module, name, None)
        if original is not None:
            setattr(module, name, _once(original, functools.partial(_reading_streams, api=api)))
    answers = getattr(module, "_ResponseAttributes", None)
    if answers is not None:
        module._ResponseAttributes = _once(answers, _reading_whole)


def read_anthropic() -> None:
    """Add what `model_apis` reads from an Anthropic answer to its span.

    The client assembles streams itself.
    """
    for name in ("_stream", "_wrappers"):
        try:
            module = load(f"openinference.instrumentation.anthropic.{name}")
            original = module._get_output_message_attributes
        except (ImportError, AttributeError):  # another recorder is in use, or an older one
            continue
        module._get_output_message_attributes = _once(original, _reading_messages)


def _once(original: Any, reading: Callable[[Any], Any]) -> Any:
    """The replacement for `original`; `original` itself if it was replaced already."""
    if hasattr(original, "ratchet_original"):
        return original
    replacement = reading(original)
    replacement.ratchet_original = original
    return replacement


def _reading_messages(original: Any) -> Any:
    @functools.wraps(original)
    def read(message: Any) -> Iterator[tuple[str, Any]]:
        yield from original(message)
        answer = plain(message)
        if isinstance(answer, dict):
            yield from _read(messages, answer)
            if not answer.get("stop_reason"):
                yield BROKEN_OFF, True

    return read


def _reading_streams(original: Any, api: ModelApi) -> Any:
    class Accumulator(original):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._ratchet_assembly = api.assembly()

        def process_chunk(self, chunk: Any) -> None:
            add_event(self._ratchet_assembly, chunk)
            super().process_chunk(chunk)

        def get_extra_attributes(self) -> Iterator[tuple[str, Any]]:
            yield from super().get_extra_attributes()
            assembly = self._ratchet_assembly
            yield from _read(api, assembly.response())
            if assembly.begun and not assembly.complete:
                yield BROKEN_OFF, True

    return Accumulator


def _reading_whole(original: Any) -> Any:
    class Answer(original):  # type: ignore[misc]
        def get_extra_attributes(self) -> Iterator[tuple[str, Any]]:
            yield from super().get_extra_attributes()
            answer = self._response
            api = _ANSWERS.get(type(answer).__name__.partition("[")[0].removeprefix("Parsed"))
            if api is not None:
                yield from _read(api, plain(answer))

    return Answer


def _read(api: ModelApi, answer: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    from openinference.instrumentation import TraceConfig

    config = TraceConfig()
    hides = config.hide_outputs or config.hide_output_messages or config.hide_output_text
    for key, value in api.response_attributes(answer).items():
        if key != _OUTPUT or not hides:
            yield key, value
