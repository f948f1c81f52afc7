"""Measures training: that gradients equal TRL's, and that trainer and sampler agree.

    python benchmarks/weights.py [--no-peer]

A small Llama with random weights makes a batch of rollouts, which is recorded. Ours and TRL compute
the gradient of the same adapter on it: groups scaled by their standard deviation, tokens averaged
over the batch, symmetric clip. TRL is installed into .bench/trl on first use, beside the PyTorch
and transformers of this environment. The last line printed is one JSON object:

- parity: largest absolute difference of a gradient; the bound is 1e-5
- largest_gradient: for comparison
- logprob_gap: largest |log π − log μ| in float32, between a pass over whole rows and tokens that
  were sampled one by one; the bound is 1e-4
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PARTS = ROOT / "benchmarks" / "parts" / "weights"
sys.path[:0] = [str(PARTS)]

import recorded  # noqa: E402

PEER = "trl==1.16.0"
PARITY, GAP = 1e-5, 1e-4


def learner_of(folder: Path) -> Any:
    """A learner of the recorded model, whose adapter changes something already."""
    import torch
    from transformers import LlamaForCausalLM

    from ratchet.models.policy import Base
    from ratchet.weights.learner import Learner
    from ratchet.weights.settings import LoRA, Optimizer

    model = LlamaForCausalLM.from_pretrained(folder / "model").eval()
    base = Base(
        model=model,
        tokenizer=None,
        name="recorded",
        fingerprint="recorded",
        tokenizer_hash="",
        template_hash="",
        context=2048,
        stop_ids=frozenset(),
    )
    learner = Learner(base, lora=LoRA(rank=4, alpha=8), optimizer=Optimizer(learning_rate=1e-3))
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.02)
    learner.export(folder / "adapter")
    return learner


def our_gradients(folder: Path, learner: Any) -> tuple[dict[str, Any], float]:
    """Gradients by parameter, and the largest gap between the sampler and the base."""
    import torch

    from ratchet.types import Transition, pack_floats, pack_ids
    from ratchet.weights.advantage import group_advantages
    from ratchet.weights.loss import ScoredTokens, policy_loss, token_weights
    from ratchet.weights.rows import rows_of
    from ratchet.weights.sampler import GradedRollout
    from ratchet.weights.settings import PolicyLoss

    rollouts = []
    for i, found in enumerate(json.loads((folder / "rollouts.json").read_text())):
        call = Transition(
            id=f"{i}",
            rollout_id=f"{i}",
            fence=1,
            call_index=0,
            model="recorded",
            prompt_ids=pack_ids(found["prompt"]),
            response_ids=pack_ids(found["response"]),
            logprobs=pack_floats(found["logprobs"]),
            started_ns=0,
            ended_ns=0,
        )
        rollouts.append(
            GradedRollout(
                rollout_id=f"{i}",
                task_id=str(found["task"]),
                reward=found["reward"],
                transitions=(call,),
            )
        )
    rows = [row for r in rollouts for row in rows_of(r, vocabulary=learner.vocabulary)]
    sampled = [row.logprobs[row.mask] for row in rows]
    read = learner.evaluate(rows, of_base=True).logprobs
    gap = max(float(np.abs(a - b).max()) for a, b in zip(sampled, read, strict=True))
    by_call = group_advantages(rollouts, scale="group").by_call
    settings = PolicyLoss(clip_low=0.2, clip_high=0.2, dual_clip=None, max_weight=None)
    counts = [len(values) for values in sampled]
    weights = token_weights("token_mean", counts, [row.rollout_id for row in rows], 1)

    def objective(reading: Any, indices: Any) -> tuple[Any, dict[str, float]]:
        advantages = [np.full(counts[i], by_call[rows[i].rollout_id], np.float32) for i in indices]
        old = reading.logprobs.detach()
        tokens = ScoredTokens(
            torch.from_numpy(np.concatenate(advantages)),
            old,
            old,
            None,
            torch.from_numpy(
                np.concatenate([np.full(counts[i], weights[i], np.float32) for i in indices])
            ),
            torch.zeros(len(old), dtype=torch.long),
        )
        return policy_loss(reading.logprobs, tokens, settings)

    return learner.gradients([(row,) for row in rows], objective), gap


def peer_python() -> Path:
    """The interpreter of TRL's environment, made on first use."""
    home = ROOT / ".bench" / "trl"
    stamp, python = home / "installed", home / "bin" / "python"
    if not (stamp.exists() and stamp.read_text() == PEER):
        print(f"installing {PEER} into .bench/trl, once", file=sys.stderr, flush=True)
        shutil.rmtree(home, ignore_errors=True)
        home.parent.mkdir(exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        (packages,) = home.glob("lib/python*/site-packages")
        # The same PyTorch, transformers and peft as ours, so that only the trainers differ.
        (packages / "ours.pth").write_text(
            f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
        )
        subprocess.run([str(python), "-m", "pip", "install", "-q", PEER], check=True)
        stamp.write_text(PEER)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="as --no-peer, for CI")
    parser.add_argument("--no-peer", action="store_true", help="leave TRL out")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorded.record(folder)
        learner = learner_of(folder)
        ours, gap = our_gradients(folder, learner)
        results: dict[str, Any] = {"logprob_gap": gap}
        if not (options.quick or options.no_peer):
            from safetensors.torch import load_file

            part = str(PARTS / "trl_gradients.py")
            subprocess.run([str(peer_python()), part, str(folder)], check=True, stdout=sys.stderr)
            theirs = load_file(folder / "trl.safetensors")
            if ours.keys() != theirs.keys():
                raise SystemExit(f"Other parameters: {sorted(ours.keys() ^ theirs.keys())[:4]}")
            results["parity"] = max(float((ours[n] - theirs[n]).abs().max()) for n in ours)
            results["largest_gradient"] = max(float(g.abs().max()) for g in ours.values())
    print(msgspec.json.encode(results).decode())
    if gap >= GAP or results.get("parity", 0.0) >= PARITY:
        raise SystemExit("a bound is exceeded")


if __name__ == "__main__":
    main()
