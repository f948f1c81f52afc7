"""The learner: what it reads of rows, how it steps, and that it is saved whole."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ratchet.models.policy import adapter_hash  # noqa: E402
from ratchet.types import InputError, RatchetError  # noqa: E402
from ratchet.weights.examples import TokenExample  # noqa: E402
from ratchet.weights.learner import Diverged, Learner  # noqa: E402
from ratchet.weights.settings import LoRA, Optimizer  # noqa: E402
from tests.weights.tiny import tiny_base  # noqa: E402

pytestmark = pytest.mark.torch


def example(*ids: int, trained: int = 2) -> TokenExample:
    return TokenExample(ids, [i >= len(ids) - trained for i in range(len(ids))])


ROWS = [
    example(1, 5, 7, 9, 11),
    example(2, 4),
    example(3, 6, 1),
    example(8, 8, 2, 1, 4, 5, 6, trained=5),
]
ROWS[1] = TokenExample((2, 4), [False, True])


def learner(
    *, rate: float = 1e-2, micro_tokens: int = 4096, seed: int = 0, critic: float | None = None
) -> Learner:
    return Learner(
        tiny_base(),
        lora=LoRA(rank=2, alpha=4),
        optimizer=Optimizer(learning_rate=rate, micro_tokens=micro_tokens),
        seed=seed,
        critic_learning_rate=critic,
    )


def imitate(reading, indices):
    return -reading.logprobs.sum(), {"seen": len(reading.logprobs)}


def alone(row: TokenExample) -> np.ndarray:
    """Log-probabilities of the trained tokens by a plain pass of the model."""
    with torch.no_grad():
        scores = tiny_base().model(input_ids=torch.tensor([row.ids])).logits[0].log_softmax(-1)
    places = [i for i, trained in enumerate(row.mask) if trained]
    return np.array([float(scores[i - 1, row.ids[i]]) for i in places])


@pytest.mark.parametrize("micro_tokens", [1, 8, 16, 4096])
def test_rows_that_share_a_line_do_not_see_each_other(micro_tokens: int) -> None:
    found = learner(micro_tokens=micro_tokens).evaluate(ROWS)
    for row, logprobs in zip(ROWS, found.logprobs, strict=True):
        assert logprobs == pytest.approx(alone(row), abs=1e-5)


def test_an_adapter_begins_by_changing_nothing_and_a_step_changes_it() -> None:
    trained = learner()
    before = trained.evaluate(ROWS)
    found = trained.step([(row,) for row in ROWS], imitate)
    after = trained.evaluate(ROWS)
    assert found["seen"] == sum(sum(row.mask) for row in ROWS)
    assert sum(map(np.sum, after.logprobs)) > sum(map(np.sum, before.logprobs))
    base = trained.evaluate(ROWS, of_base=True)
    assert np.array_equal(np.concatenate(base.logprobs), np.concatenate(before.logprobs))


def test_gradients_do_not_depend_on_how_a_batch_is_cut() -> None:
    units = [(row,) for row in ROWS]
    whole = learner().gradients(units, imitate)
    cut = learner(micro_tokens=8).gradients(units, imitate)
    assert whole.keys() == cut.keys() != set()
    for name, gradient in whole.items():
        assert torch.allclose(gradient, cut[name], atol=1e-5), name


def fails_above(model, tokens: int) -> None:
    """Let the model run out of memory beyond so many tokens."""

    def refuse(_module, arguments, named) -> None:
        if named["input_ids"].numel() > tokens:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    model.register_forward_pre_hook(refuse, with_kwargs=True)


def test_out_of_memory_halves_the_micro_batch_and_gives_the_same_gradient() -> None:
    limited, free = learner(), learner()
    fails_above(limited.base.model, 8)
    units = [(row,) for row in ROWS]
    limited.step(units, imitate)
    free.step(units, imitate)
    assert limited.micro_tokens < 4096
    small, large = limited.evaluate(ROWS), free.evaluate(ROWS)
    assert np.concatenate(small.logprobs) == pytest.approx(np.concatenate(large.logprobs), abs=1e-4)


def test_a_row_for_which_the_memory_never_suffices_is_told() -> None:
    limited = learner()
    fails_above(limited.base.model, 6)
    with pytest.raises(RatchetError, match="single rollout or example of 7 tokens"):
        limited.step([(row,) for row in ROWS], imitate)


def test_a_loss_that_is_not_a_number_changes_nothing() -> None:
    trained = learner()
    before = trained.evaluate(ROWS)

    def broken(reading, indices):
        return reading.logprobs.sum() * math.nan, {}

    with pytest.raises(Diverged, match="Lower learning_rate"):
        trained.step([(row,) for row in ROWS], broken)
    assert np.array_equal(
        np.concatenate(trained.evaluate(ROWS).logprobs), np.concatenate(before.logprobs)
    )
    assert trained.updates == 0


def test_training_goes_on_from_a_saved_learner_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    units = [(row,) for row in ROWS]
    through, stopped = learner(critic=1e-2), learner(critic=1e-2)

    def with_critic(of):
        return lambda reading, indices: (
            -reading.logprobs.sum() + (of.critic(reading.hidden) ** 2).sum(),
            {},
        )

    for one in (through, stopped):
        one.step(units, with_critic(one))
    stopped.micro_tokens = 64
    stopped.save(tmp_path)
    resumed = learner(seed=5, critic=1e-2)
    resumed.load(tmp_path)
    assert (resumed.updates, resumed.micro_tokens) == (1, 64)
    for one in (through, resumed):
        one.step(units, with_critic(one))
    assert through.export(tmp_path / "a") == resumed.export(tmp_path / "b")
    assert torch.equal(through.critic.bias, resumed.critic.bias)


def test_an_exported_adapter_is_peft_s_and_computes_the_same(tmp_path: Path) -> None:
    from peft import PeftModel

    trained = learner(rate=0.1)
    trained.step([(row,) for row in ROWS], imitate)
    assert trained.export(tmp_path / "adapter") == adapter_hash(tmp_path / "adapter")
    served = PeftModel.from_pretrained(tiny_base().model, str(tmp_path / "adapter")).eval()
    with torch.no_grad():
        scores = served(input_ids=torch.tensor([ROWS[0].ids])).logits[0].log_softmax(-1)
    expected = [float(scores[i - 1, ROWS[0].ids[i]]) for i in (3, 4)]
    assert trained.evaluate(ROWS[:1]).logprobs[0] == pytest.approx(expected, abs=1e-5)


def test_an_export_is_the_same_in_every_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.weights.test_learner import learner;"
        "print(learner().export(Path(sys.argv[1])))"
    )
    folder = tmp_path / "other"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == learner().export(tmp_path / "here")
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        assert (folder / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_training_begins_from_an_adapter_with_its_shape(tmp_path: Path) -> None:
    trained = learner(rate=0.1)
    trained.step([(row,) for row in ROWS], imitate)
    version = trained.export(tmp_path / "adapter")
    begun = Learner(
        tiny_base(),
        lora=LoRA(rank=7),
        optimizer=Optimizer(learning_rate=1e-2),
        adapter=tmp_path / "adapter",
    )
    assert begun.export(tmp_path / "again") == version


def test_an_adapter_of_another_base_is_refused(tmp_path: Path) -> None:
    learner().export(tmp_path / "adapter")
    with pytest.raises(InputError, match=r"belongs to the base 'tiny-0'.*this base is tiny-1"):
        Learner(
            tiny_base(1),
            lora=LoRA(),
            optimizer=Optimizer(learning_rate=1e-2),
            adapter=tmp_path / "adapter",
        )
