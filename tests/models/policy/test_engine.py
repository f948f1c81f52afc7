"""The engine: what it generates, with whom it shares a batch, and what it says of it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.local_models import require_model
from tests.models.policy.tiny_models import save_adapter, save_model

from ratchet.models import ModelUnavailable
from ratchet.models.policy import Base, load_base
from ratchet.models.policy.engine import PolicyEngine
from ratchet.models.policy.generation import Generation
from ratchet.models.policy.lora import LoadedAdapter, load_adapter
from ratchet.models.policy.sampling import SampledRow, SamplingRequest, sample

pytestmark = pytest.mark.torch

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"head_dim": 16},
    "mistral": {"sliding_window": None},
    "gemma": {"head_dim": 16},
    "phi3": {"sliding_window": None},
    "granite": {},
}


def ask(prompt: list[int], adapter: LoadedAdapter | None = None, **given: Any) -> Generation:
    version = adapter.version if adapter else "base"
    return Generation(prompt, adapter=adapter, version=version, **{"max_tokens": 20, **given})


def answers(engine: PolicyEngine, *asked: Generation) -> list[tuple[list[int], list[float]]]:
    for one in asked:
        engine.submit(one)
    engine.run()
    assert [one.error for one in asked] == [None] * len(asked)
    return [(one.response, one.logprobs) for one in asked]


def forward(model: Any, ids: list[int]) -> Any:
    """Log-probabilities by the forward pass that training uses: [len(ids), vocabulary]."""
    import torch

    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0].float(), -1)


def with_adapter(base: Base, folder: Path) -> Any:
    import copy

    from peft import PeftModel

    return PeftModel.from_pretrained(copy.deepcopy(base.model), str(folder)).eval()


def crowd(weights: list[LoadedAdapter | None], seed: int = 1) -> list[Generation]:
    """Requests of many lengths for several versions, some beginning as another does."""
    chosen = random.Random(seed)
    out: list[Generation] = []
    for number in range(16):
        ids = [chosen.randrange(256) for _ in range(chosen.choice([1, 3, 20, 130]))]
        if number % 4 == 3:
            ids = out[-1].prompt + ids[:5]
        out.append(
            ask(
                ids,
                chosen.choice(weights),
                max_tokens=chosen.choice([1, 5, 30]),
                seed=number,
                score_prompt=number % 5 == 0,
            )
        )
    return out


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("kind", FAMILIES)
def test_log_probabilities_are_those_of_the_forward_pass_that_trains(
    kind: str, fused: bool, tmp_path: Path
) -> None:
    folder = save_model(tmp_path / kind, kind=kind, **FAMILIES[kind])
    trained = load_base(folder)
    saved = [save_adapter(tmp_path / str(seed), trained, seed=seed) for seed in (1, 2)]
    base = load_base(folder)
    engine = PolicyEngine(base, slots=5, fused=fused)
    loaded = [load_adapter(one, base) for one in saved]
    models = {one.version: with_adapter(trained, at) for one, at in zip(loaded, saved, strict=True)}
    models["base"] = trained.model
    asked = crowd([None, *loaded])
    for number, one in enumerate(asked):
        engine.submit(one)
        if number % 3 == 0:
            engine.step()  # the rest joins a batch that runs
    engine.run()
    for one in asked:
        assert one.error is None
        assert len(one.response) == len(one.logprobs) > 0
        wanted = forward(models[one.version], [*one.prompt, *one.response])
        begin = len(one.prompt) - 1
        for at, token in enumerate(one.response):
            assert abs(float(wanted[begin + at, token]) - one.logprobs[at]) < 1e-4
        for at, value in enumerate(one.prompt_logprobs):
            assert abs(float(wanted[at, one.prompt[at + 1]]) - value) < 1e-4
        assert len(one.prompt_logprobs) == (len(one.prompt) - 1 if one.score_prompt else 0)


def test_log_probabilities_of_the_small_model_are_those_that_training_computes(
    tmp_path: Path,
) -> None:
    require_model()
    base = load_base("smollm2")
    trained = with_adapter(base, save_adapter(tmp_path / "adapter", base, r=16))
    engine = PolicyEngine(base, context=512)
    adapter = load_adapter(tmp_path / "adapter", base)
    prompt = base.tokenizer.render([{"role": "user", "content": "Why is the sky blue?"}])
    plain, adapted = ask(prompt, seed=1), ask(prompt, adapter, seed=1)
    answers(engine, plain, adapted)
    for one, model in ((plain, base.model), (adapted, trained)):
        wanted = forward(model, [*one.prompt, *one.response])[len(prompt) - 1 :]
        gaps = [
            abs(float(wanted[at, token]) - one.logprobs[at])
            for at, token in enumerate(one.response)
        ]
        assert max(gaps) < 1e-4
    assert plain.response != adapted.response


def test_a_scored_prompt_is_not_confused_with_one_that_ends_before_it(
    folder: Path, base: Base
) -> None:
    engine = PolicyEngine(load_base(folder))
    pair = ask([1, 2], max_tokens=1), ask([3, 4, 5], max_tokens=1, score_prompt=True)
    answers(engine, *pair)
    for one in pair:
        wanted = forward(base.model, [*one.prompt, *one.response])
        told = [*one.prompt_logprobs, *one.logprobs]
        ids = [*one.prompt, *one.response][-len(told) :]
        begin = len(one.prompt) - len(one.prompt_logprobs) - 1
        assert told == pytest.approx(
            [float(wanted[begin + at, token]) for at, token in enumerate(ids)], abs=1e-4
        )


def test_the_most_probable_tokens_are_those_of_transformers(folder: Path, base: Base) -> None:
    import torch

    engine = PolicyEngine(load_base(folder), slots=3)
    prompts = [[1, 2, 3], [9] * 40, [200, 100]]
    greedy = SamplingRequest(temperature=0)
    found = answers(engine, *(ask(one, sampling=greedy) for one in prompts))
    for prompt, (response, _) in zip(prompts, found, strict=True):
        made = base.model.generate(
            torch.tensor([prompt]), max_new_tokens=20, do_sample=False, eos_token_id=None
        )
        assert made[0, len(prompt) :].tolist() == response


@pytest.mark.parametrize("fused", [True, False])
def test_a_deterministic_answer_is_the_same_bit_for_bit_in_any_company(
    folder: Path, adapters: list[Path], fused: bool
) -> None:
    def engine() -> tuple[PolicyEngine, list[LoadedAdapter]]:
        base = load_base(folder)
        made = PolicyEngine(base, slots=6, deterministic=True, fused=fused)
        return made, [load_adapter(one, base) for one in adapters[:2]]

    together, loaded = engine()
    in_company = answers(together, *crowd([None, *loaded]))
    again = answers(together, *crowd([None, *loaded]))  # with all prefixes known
    assert again == in_company
    alone, loaded = engine()
    by_itself = [answers(alone, one)[0] for one in reversed(crowd([None, *loaded]))]
    assert by_itself[::-1] == in_company


def test_what_an_earlier_call_read_is_not_read_again(folder: Path) -> None:
    engine = PolicyEngine(load_base(folder))
    first = ask(list(range(100)), seed=1)
    answers(engine, first)
    longer = ask([*first.prompt, *first.response, 7, 8, 9], seed=2)
    fresh = PolicyEngine(load_base(folder), prefix_bytes=0)
    expected = answers(fresh, ask(longer.prompt, seed=2))
    found = answers(engine, longer)
    # The last token of the answer was never read.
    assert longer.cached == 119
    assert found[0][0] == expected[0][0]
    assert found[0][1] == pytest.approx(expected[0][1], abs=1e-4)


def test_a_prompt_that_several_ask_at_once_is_read_once(folder: Path) -> None:
    engine = PolicyEngine(load_base(folder), slots=8)
    group = [ask(list(range(64)), seed=seed) for seed in range(8)]
    answers(engine, *group)
    assert sorted(one.cached for one in group) == [0] + [63] * 7


def test_kept_prefixes_stay_within_their_bytes(folder: Path) -> None:
    engine = PolicyEngine(load_base(folder), prefix_bytes=100 * 512)
    assert engine.cache.bytes_per_token == 512  # 2 layers, keys and values, 2 heads of 16 numbers
    for first in range(6):
        answers(engine, ask([first, *range(50)], max_tokens=2))
    again = [ask([first, *range(50)], max_tokens=2) for first in (5, 0)]
    answers(engine, *again)
    assert [one.cached > 0 for one in again] == [True, False]


def test_an_answer_ends_at_its_limit_its_token_its_text_and_the_context(folder: Path) -> None:
    base = load_base(folder)
    engine = PolicyEngine(base, context=300)
    whole, _ = answers(engine, ask([1, 2], seed=3, max_tokens=40))[0]
    assert len(whole) == 40
    token = ask([1, 2], seed=3, max_tokens=40, stop_ids=frozenset({whole[10]}))
    written = base.tokenizer.decode(whole[5:8])
    text = ask([1, 2], seed=3, max_tokens=40, stop=[written], tokenizer=base.tokenizer)
    full = ask([1] * 290, max_tokens=1000)
    answers(engine, token, text, full)
    assert token.response == whole[: whole.index(whole[10]) + 1]
    assert token.finish_reason == text.finish_reason == "stop"
    assert len(text.response) <= 8
    assert text.response == whole[: len(text.response)]
    assert (len(full.response), full.finish_reason) == (10, "length")


def test_room_grows_with_the_longest_and_keeps_what_was_read(folder: Path, base: Base) -> None:
    engine = PolicyEngine(load_base(folder), slots=2)
    long, short = ask([3] * 240, max_tokens=60), ask([4, 5], max_tokens=60)
    answers(engine, long, short)
    assert engine.cache.capacity == 512
    wanted = forward(base.model, [*long.prompt, *long.response])
    values = [float(wanted[239 + at, token]) for at, token in enumerate(long.response)]
    assert values == pytest.approx(long.logprobs, abs=1e-4)


def test_without_memory_only_what_needs_it_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = PolicyEngine(load_base(folder), slots=2)
    monkeypatch.setattr("ratchet.models.policy.cache.bytes_available", lambda: 0)
    long, short = ask([3] * 240, max_tokens=60), ask([4, 5], max_tokens=60)
    too_long = ask([3] * 300)
    for one in (long, short, too_long):
        engine.submit(one)
    engine.run()
    assert isinstance(long.error, ModelUnavailable)
    assert "not enough memory for sequences of 257 tokens" in str(long.error)
    assert isinstance(too_long.error, ModelUnavailable)
    assert len(short.response) == 60


def test_what_is_cancelled_leaves_its_slot_to_others(folder: Path) -> None:
    engine = PolicyEngine(load_base(folder), slots=1)
    left, waiting, last = ask([1]), ask([2]), ask([3], max_tokens=3)
    for one in (left, waiting, last):
        engine.submit(one)
    engine.step()
    left.cancelled = waiting.cancelled = True
    engine.run()
    assert len(left.response) == 1
    assert waiting.response == []
    assert len(last.response) == 3


def test_a_step_that_fails_ends_its_batch_and_not_the_engine(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = PolicyEngine(load_base(folder))
    lost = ask([1])
    engine.submit(lost)
    with monkeypatch.context() as broken:
        broken.setattr("ratchet.models.policy.engine.sample", lambda *_: 1 / 0)
        engine.run()
    assert isinstance(lost.error, ZeroDivisionError)
    assert len(answers(engine, ask([1]))[0][0]) == 20


def test_weights_that_diverged_do_not_reach_the_answers_of_others(
    folder: Path, adapters: list[Path]
) -> None:
    import dataclasses

    base = load_base(folder)
    engine = PolicyEngine(base, deterministic=True)
    good = load_adapter(adapters[0], base)
    wild = dataclasses.replace(
        good,
        version="wild",
        layers={name: (a * float("inf"), b) for name, (a, b) in good.layers.items()},
    )
    expected = answers(engine, ask([1, 2], good, seed=1))[0]
    healthy = ask([1, 2], good, seed=1)
    engine.submit(ask([1, 2], wild, seed=1))
    engine.submit(healthy)
    engine.run()
    assert (healthy.response, healthy.logprobs) == expected


@pytest.mark.parametrize(
    ("kind", "given", "why"),
    [
        ("mamba", {"state_size": 8}, "MambaForCausalLM cannot be served: "),
        ("bloom", {"n_head": 4}, "BloomForCausalLM cannot be served: "),
        ("gemma2", {"head_dim": 16}, "Gemma2ForCausalLM computes attention in a way"),
    ],
)
def test_a_model_whose_attention_is_not_the_usual_one_is_refused_by_its_class(
    kind: str, given: dict[str, Any], why: str, tmp_path: Path
) -> None:
    model = load_base(save_model(tmp_path / kind, kind=kind, **given))
    with pytest.raises(ModelUnavailable, match=why):
        PolicyEngine(model)


def test_a_sliding_window_limits_the_context_to_where_it_sees_everything(tmp_path: Path) -> None:
    given = {"head_dim": 16, "sliding_window": 64}
    engine = PolicyEngine(load_base(save_model(tmp_path / "m", kind="mistral", **given)))
    assert engine.context == 64
    one = ask([1] * 60, max_tokens=60)
    answers(engine, one)
    assert (len(one.response), one.finish_reason) == (4, "length")


def drawn(logits: list[float], count: int, **given: Any) -> list[float]:
    """How often each token is drawn."""
    import torch

    request = SamplingRequest(**given)
    chance = random.Random(4)
    rows = [SampledRow(request, chance, [], []) for _ in range(count)]
    tokens, _, _ = sample(torch.tensor([logits] * count), rows)
    return [float((tokens == token).sum()) / count for token in range(len(logits))]


def test_top_k_and_top_p_leave_out_the_rest() -> None:
    logits = [2.0, 1.0, 0.0, -1.0]  # 0.64, 0.24, 0.09, 0.03
    assert drawn(logits, 500, top_k=2)[2:] == [0, 0]
    assert drawn(logits, 500, top_p=0.7)[2:] == [0, 0]
    assert drawn(logits, 500, top_p=0.1) == [1, 0, 0, 0]
    assert drawn(logits, 500, logit_bias={3: 100})[3] == 1


def test_penalties_change_what_is_drawn_and_not_what_is_told() -> None:
    import torch

    logits = torch.tensor([[2.0, 1.9, 0.0]])
    for given in (
        {"frequency_penalty": 1.0},
        {"presence_penalty": 1.0},
        {"repetition_penalty": 2.0},
    ):
        request = SamplingRequest(temperature=0, **given)
        row = SampledRow(request, random.Random(0), [], [0, 0])
        tokens, logprobs, _ = sample(logits, [row])
        assert tokens.tolist() == [1]
        assert logprobs.tolist() == torch.log_softmax(logits, -1)[0, 1:2].tolist()
