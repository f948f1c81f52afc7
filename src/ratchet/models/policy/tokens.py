"""The tokens of a model: text to ids and back, and messages to ids with the model's template."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.types import InputError


class ChatTokenizer:
    """A model's tokenizer and chat template.

    Args:
        inner: A tokenizer of transformers.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.template: str = inner.chat_template or ""
        """The chat template, in Jinja; empty if the model has none."""
        backend = getattr(inner, "backend_tokenizer", None)
        about = backend.to_str() if backend is not None else repr(sorted(inner.get_vocab().items()))
        self.hash = hashlib.sha256(about.encode()).hexdigest()
        """SHA-256 of the tokenizer."""
        self.template_hash = hashlib.sha256(self.template.encode()).hexdigest()
        """SHA-256 of the chat template."""

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.inner)

    @property
    def eos_id(self) -> int | None:
        """The token that ends a turn; None if the model has none."""
        token_id = self.inner.eos_token_id
        return None if token_id is None else int(token_id)

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """The token ids of a text.

        Args:
            text: The text; names of special tokens in it become these.
            special: Add what the tokenizer puts around a whole text, such as a first token.
        """
        return list(self.inner.encode(text, add_special_tokens=special))

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """The text of token ids; that of special tokens only if requested."""
        return str(
            self.inner.decode(
                list(ids), skip_special_tokens=not special, clean_up_tokenization_spaces=False
            )
        )

    def render_text(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        answer: bool = True,
    ) -> str:
        """The text of a conversation by the model's template.

        Args:
            messages: The messages as in OpenAI's API, with arguments of tool calls as objects.
            tools: The tools as in OpenAI's API.
            answer: End with the beginning of the assistant's next turn.

        Raises:
            InputError: The model has no template, or it refuses the messages.
        """
        if not self.template:
            raise InputError(
                "The model has no chat template, so it cannot read messages.",
                hint="Save one with its tokenizer (chat_template), or use /v1/completions.",
            )
        try:
            return str(
                self.inner.apply_chat_template(
                    [dict(message) for message in messages],
                    tools=[dict(tool) for tool in tools] if tools else None,
                    add_generation_prompt=answer,
                    tokenize=False,
                )
            )
        except Exception as error:  # a template is a program of its author's
            raise InputError(
                f"The model's chat template rejects these messages: {error}.",
                hint="Many templates require alternating user and assistant roles, and texts as "
                "content.",
            ) from None

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        answer: bool = True,
    ) -> list[int]:
        """The ids of a conversation by the model's template; see `render_text`."""
        return self.encode(self.render_text(messages, tools, answer=answer))
