"""Conversations as tokens, by the model's own chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ratchet.types import InputError
from ratchet.weights.examples import PreferencePair, TokenExample
from ratchet.weights.recorded_chat import ChatExample, ChatMessage, ChatPair, NotTrainable

if TYPE_CHECKING:
    from ratchet.models.policy.tokens import ChatTokenizer


def rendered_example(tokenizer: ChatTokenizer, example: ChatExample) -> list[TokenExample]:
    """An example for each answer that is learned.

    The prompt and the answer are tokenised apart, as when the model is asked. The answer ends with
    the token that ends a turn.

    Raises:
        NotTrainable: The template does not say the conversation, or rewrites what was said before.
    """
    return [
        _rendered(tokenizer, example.messages[:at], example.messages[at], example.tools)
        for at in example.learned
    ]


def rendered_pair(tokenizer: ChatTokenizer, pair: ChatPair) -> PreferencePair:
    """Both answers of a pair after their prompt.

    Raises:
        NotTrainable: As `rendered_example`.
    """
    return PreferencePair(
        _rendered(tokenizer, pair.messages, pair.chosen, pair.tools),
        _rendered(tokenizer, pair.messages, pair.rejected, pair.tools),
    )


def _rendered(
    tokenizer: ChatTokenizer,
    messages: Sequence[ChatMessage],
    answer: ChatMessage,
    tools: Sequence[Mapping[str, Any]],
) -> TokenExample:
    conversation = [template_message(message) for message in (*messages, answer)]
    try:
        prompt = tokenizer.render_text(conversation[:-1], tools or None)
        text = tokenizer.render_text(conversation, tools or None, answer=False)
    except InputError as error:
        raise NotTrainable(f"its model cannot read it: {error.message}") from None
    if not text.startswith(prompt):
        raise NotTrainable("the model's template rewrites earlier messages before an answer")
    prompt_ids = tokenizer.encode(prompt)
    learned = tokenizer.encode(text[len(prompt) :])
    if tokenizer.eos_id in learned:
        learned = learned[: len(learned) - learned[::-1].index(tokenizer.eos_id)]
    if not prompt_ids or not learned:
        raise NotTrainable("its model's template gives it no tokens")
    return TokenExample([*prompt_ids, *learned], [False] * len(prompt_ids) + [True] * len(learned))


def template_message(message: ChatMessage) -> ChatMessage:
    """A message as chat templates read it: content as text, tool call arguments as objects."""
    templated = {**message, "content": message.get("content") or ""}
    if "tool_calls" in templated:
        templated["tool_calls"] = [
            {
                "type": "function",
                "function": {
                    "name": call["function"]["name"],
                    "arguments": _object(call["function"]["arguments"]),
                },
            }
            for call in templated["tool_calls"]
        ]
    return templated


def _object(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        raise NotTrainable("it has a tool call whose arguments are not JSON") from None
