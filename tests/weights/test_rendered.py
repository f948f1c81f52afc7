from __future__ import annotations

from typing import Any

import pytest

from ratchet.weights.recorded_chat import ChatExample, ChatPair, NotTrainable

pytestmark = pytest.mark.torch

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}:{{ c.function.arguments.city }}"
    "{% endfor %}<end>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
DROPS_THE_PAST = "{% for m in messages[-1:] %}<|{{ m.role }}|>{{ m.content }}<end>{% endfor %}"


def tokenizer(template: str = TEMPLATE) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from ratchet.models.policy.tokens import ChatTokenizer

    vocabulary = {
        letter: at for at, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))
    }
    inner = Tokenizer(models.BPE(vocabulary, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")
    made.chat_template = template
    return ChatTokenizer(made)


def learned(tokens: Any, example: Any) -> str:
    ids = [token for token, mask in zip(example.ids, example.mask, strict=True) if mask]
    return str(tokens.decode(ids, special=True))


def talk(*texts: str) -> tuple[dict[str, Any], ...]:
    roles = ("user", "assistant")
    return tuple({"role": roles[n % 2], "content": text} for n, text in enumerate(texts))


def test_each_answer_of_the_model_is_learned_with_the_end_of_its_turn() -> None:
    from ratchet.weights.rendered import rendered_example

    tokens = tokenizer()
    example = ChatExample(messages=talk("a", "b", "c", "dé"), learned=(1, 3))
    first, second = rendered_example(tokens, example)
    assert (learned(tokens, first), learned(tokens, second)) == ("b<end>", "dé<end>")
    asked = "<|user|>a<end><|assistant|>b<end><|user|>c<end><|assistant|>"
    assert tokens.decode(second.ids, special=True) == f"{asked}dé<end>"
    assert list(second.ids)[: second.mask.index(True)] == tokens.encode(asked)


def test_tool_calls_are_learned() -> None:
    from ratchet.weights.rendered import rendered_example

    tokens = tokenizer()
    function = {"name": "weather", "arguments": '{"city":"Oslo"}'}
    calls = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "function": function}],
    }
    (found,) = rendered_example(tokens, ChatExample(messages=(*talk("a"), calls), learned=(1,)))
    assert learned(tokens, found) == "weather:Oslo<end>"


def test_both_answers_of_a_pair_follow_the_same_prompt() -> None:
    from ratchet.weights.rendered import rendered_pair

    tokens = tokenizer()
    chosen, rejected = ({"role": "assistant", "content": text} for text in ("good", "bad"))
    found = rendered_pair(tokens, ChatPair(messages=talk("a"), chosen=chosen, rejected=rejected))
    assert learned(tokens, found.chosen) == "good<end>"
    assert learned(tokens, found.rejected) == "bad<end>"


def test_a_template_that_rewrites_the_past_is_no_training_data() -> None:
    from ratchet.weights.rendered import rendered_example

    example = ChatExample(messages=talk("a", "b"), learned=(1,))
    with pytest.raises(NotTrainable, match="rewrites"):
        rendered_example(tokenizer(DROPS_THE_PAST), example)
    with pytest.raises(NotTrainable, match="cannot read"):
        rendered_example(tokenizer("{{ raise_exception('no') }}"), example)
