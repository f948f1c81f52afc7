"""A task that takes two tool calls and an answer, and a tiny Llama that learns it from nothing.

There are four drawers with a digit in each. Asked for two of them, the agent opens one, then the
other, and answers with the larger digit. A call is a letter, its result a digit that enters the
context. A right opening earns 0.3, the right answer 0.4; a fifth of it for a token of the right
kind, three fifths for the right one, and the last for ending there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

USER, AGENT, TOOL, END, ABSENT, PAD = range(6)
LETTERS = tuple(range(6, 10))
DIGITS = tuple(range(10, 13))
VOCABULARY = 16
CALLS, LONGEST = 3, 2
"""Calls of a rollout, and tokens of each at most."""
EARNS = (0.3, 0.3, 0.4)


class Drawers(NamedTuple):
    """A task."""

    first: int
    second: int
    contents: tuple[int, ...]
    """Digit of each drawer, 0 to 2."""

    def prompt(self) -> list[int]:
        """What the first call reads."""
        return [USER, LETTERS[self.first], LETTERS[self.second], AGENT]

    def observed(self, call: int, response: Sequence[int]) -> list[int]:
        """What the tool says to a call, up to the agent's next turn."""
        found = [token for token in response if token in LETTERS]
        digit = DIGITS[self.contents[found[0] - LETTERS[0]]] if found else ABSENT
        return [TOOL, digit, AGENT]

    def rewards(self, responses: Sequence[Sequence[int]]) -> list[float]:
        """What each call earned."""
        larger = max(self.contents[self.first], self.contents[self.second])
        right = (LETTERS[self.first], LETTERS[self.second], DIGITS[larger])
        return [
            earned
            * (
                0.2 * (response[0] in kind)
                + 0.6 * (response[0] == wanted)
                + 0.2 * (response[0] in kind and len(response) == LONGEST and response[1] == END)
            )
            for earned, kind, wanted, response in zip(
                EARNS, (LETTERS, LETTERS, DIGITS), right, responses, strict=True
            )
        ]


def tasks(count: int, seed: int) -> list[Drawers]:
    """Random tasks with two different drawers."""
    dice = random.Random(seed)
    found = []
    for _ in range(count):
        first, second = dice.sample(range(len(LETTERS)), 2)
        found.append(Drawers(first, second, tuple(dice.randrange(3) for _ in LETTERS)))
    return found


def tokenizer() -> Any:
    """A tokenizer of whole words, one for each id."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    words = {f"t{i}": i for i in range(VOCABULARY)}
    inner = Tokenizer(WordLevel(words, unk_token=f"t{PAD}"))
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token=f"t{PAD}", eos_token=f"t{END}")


def save_model(folder: Path, seed: int) -> None:
    """Write a Llama of 0.3 million random weights, and its tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=96,
            intermediate_size=256,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=64,
            initializer_range=0.1,
            bos_token_id=None,
            eos_token_id=END,
            pad_token_id=PAD,
        )
    )
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
