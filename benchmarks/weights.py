"""Measures training beside TRL: gradients, learning curves, speed, and credit for calls.

    python benchmarks/weights.py [--quick] [--no-peer] [--seeds N] [--steps N]

A small Llama with random weights makes a batch of rollouts, which is recorded. Ours and TRL compute
the gradient of the same adapter on it: groups scaled by their standard deviation, tokens averaged
over the batch, symmetric clip. TRL is installed into .bench/trl on first use, beside the PyTorch
and transformers of this environment. Then an agent
of two tool calls and an answer learns from nothing (benchmarks/parts/weights/drawers.py), for each
seed by ours and by TRL, one after another, with the same model, adapter, tasks, groups and
settings; and an agent of eight calls (corridor.py) by ours alone, once with the rollout's reward
for all its calls, and once with each call's own. Ours is the policy engine, transitions, rows and
the learner as `ratchet improve` uses them, within one process: the gateway and HTTP are left out.
TRL generates by transformers. The last line printed is one JSON object:

- parity: largest absolute difference of a gradient; the bound is 1e-5
- largest_gradient: for comparison
- ours_reward, trl_reward: mean reward of the last tenth of the steps
- ours_area, trl_area: mean reward of all steps: the area under the curve of reward by rollouts
- ours_s, trl_s: seconds of training; ours_cpu_s, trl_cpu_s: of the processor
- ours_s_to_half, trl_s_to_half: mean seconds until a step's mean reward reached 0.5, over the seeds
  where both did
- credit_gain: in the corridor, mean difference over the seeds between the area with each call's own
  reward (discount 0) and with the same rewards added up for all calls; credit_low, credit_high: its
  95 % interval (Student's t), with two seeds or more; credit_gain_final: of the last tenth of the
  steps
- generate_tokens_ratio, train_tokens_ratio: our tokens a second over TRL's, both counted in tokens
  generated; training is all that is not generation, exporting the adapter included
- ours_rss_mb, trl_rss_mb: most memory of the process
- logprob_gap: largest |log π − log μ| in float32, between a pass over whole rows and tokens that
  were sampled one by one; the bound is 1e-4
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ratchet.stats.student_t import t_quantile

ROOT = Path(__file__).resolve().parent.parent
PARTS = ROOT / "benchmarks" / "parts" / "weights"
sys.path[:0] = [str(PARTS)]

import drawers_curves  # noqa: E402
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


def curves(seeds: int, steps: int, peer: Path | None) -> dict[str, Any]:
    """Learning curves of all seeds, summed up; see above for the keys."""
    by: dict[str, list[dict[str, Any]]] = {}
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as name:
            drawers_curves.prepare(Path(name), seed)
            pythons = {"ours": sys.executable}
            if peer is not None:
                pythons["trl"] = str(peer)
            pythons |= dict.fromkeys(drawers_curves.CREDIT, sys.executable)
            for who, python in pythons.items():
                found = drawers_curves.curve(Path(name), who, python, seed, steps)
                by.setdefault(who, []).append(found)

    def mean(who: str, key: str) -> float:
        return statistics.mean(found[key] for found in by[who])

    whole, per_call = (by[who] for who in drawers_curves.CREDIT)

    def gains(key: str) -> list[float]:
        return [own[key] - shared[key] for shared, own in zip(whole, per_call, strict=True)]

    def rate(who: str, seconds: Callable[[dict[str, Any]], float]) -> float:
        return sum(f["tokens"] for f in by[who]) / sum(seconds(f) for f in by[who])

    results: dict[str, Any] = {
        "credit_gain": statistics.mean(gains("area")),
        "credit_gain_final": statistics.mean(gains("final")),
    }
    if seeds > 1:
        error = statistics.stdev(gains("area")) / math.sqrt(seeds)
        reach = t_quantile(0.975, seeds - 1) * error
        results["credit_low"] = results["credit_gain"] - reach
        results["credit_high"] = results["credit_gain"] + reach
    for who in {"ours", "trl"} & by.keys():
        results[f"{who}_reward"] = mean(who, "final")
        for key, of in {
            "area": "area",
            "s": "wall_s",
            "cpu_s": "cpu_s",
            "rss_mb": "rss_mb",
        }.items():
            results[f"{who}_{key}"] = mean(who, of)
    if "trl" in by:
        halves = [
            (mine, theirs)
            for mine, theirs in zip(map(_half, by["ours"]), map(_half, by["trl"]), strict=True)
            if mine is not None and theirs is not None
        ]
        if halves:
            results["ours_s_to_half"] = statistics.mean(mine for mine, _ in halves)
            results["trl_s_to_half"] = statistics.mean(theirs for _, theirs in halves)
        for key, seconds in {
            "generate_tokens_ratio": lambda f: f["generate_s"],
            "train_tokens_ratio": lambda f: f["wall_s"] - f["generate_s"],
        }.items():
            results[key] = rate("ours", seconds) / rate("trl", seconds)
    return results


def _half(found: dict[str, Any]) -> float | None:
    """Seconds until the mean reward of a step reached one half; None if it never did."""
    return next(
        (at for at, reward in zip(found["at_s"], found["rewards"], strict=True) if reward >= 0.5),
        None,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="as --no-peer, in small, for CI")
    parser.add_argument("--no-peer", action="store_true", help="leave TRL out")
    parser.add_argument("--seeds", type=int, help="of the curves; 5 unless --quick")
    parser.add_argument("--steps", type=int, help="of each curve; 100 unless --quick")
    options = parser.parse_args()
    if find_spec("torch") is None:
        lacking = (
            "PyTorch is not installed: make test-weights, or pip install 'agent-ratchet[train]'"
        )
        print(json.dumps({"skipped": lacking}))
        return
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorded.record(folder)
        learner = learner_of(folder)
        ours, gap = our_gradients(folder, learner)
        results: dict[str, Any] = {"logprob_gap": gap}
        peer = None if options.quick or options.no_peer else peer_python()
        if peer is None:
            print("without TRL", file=sys.stderr, flush=True)
        else:
            from safetensors.torch import load_file

            part = str(PARTS / "trl_gradients.py")
            subprocess.run([str(peer), part, str(folder)], check=True, stdout=sys.stderr)
            theirs = load_file(folder / "trl.safetensors")
            if ours.keys() != theirs.keys():
                raise SystemExit(f"Other parameters: {sorted(ours.keys() ^ theirs.keys())[:4]}")
            results["parity"] = max(float((ours[n] - theirs[n]).abs().max()) for n in ours)
            results["largest_gradient"] = max(float(g.abs().max()) for g in ours.values())
    seeds, steps = options.seeds or (1 if options.quick else 5), options.steps
    results |= curves(seeds, steps or (20 if options.quick else 100), peer)
    print(msgspec.json.encode(results).decode())
    if gap >= GAP or results.get("parity", 0.0) >= PARITY:
        raise SystemExit("a bound is exceeded")


if __name__ == "__main__":
    main()
