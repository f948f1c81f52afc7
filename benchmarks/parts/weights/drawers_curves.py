"""Learning curves: ours and TRL's on the drawers, ours with two kinds of credit in the corridor.

All begin with the same random model and adapter for each seed, and see the same tasks in the same
order. A process reports, as JSON: `rewards`, the mean reward of each step's rollouts; `at_s`, when
these were played, in seconds from the start of training; `wall_s` and `cpu_s` of training;
`generate_s`, what of it was generation; `tokens` generated; `rss_mb`, the most memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import drawers

PARTS = Path(__file__).resolve().parent
CREDIT = ("whole", "per_call")
TASKS, GROUP, POOL, RANK = 8, 8, 512, 16
RATE, CREDIT_RATE = 3e-3, 1e-3
"""With the higher rate policies in the corridor settle on one key before they know the signs."""


def prepare(folder: Path, seed: int) -> None:
    """Write the model and the adapter that all begin with."""
    from ratchet.models.policy import load_base
    from ratchet.weights.learner import Learner
    from ratchet.weights.settings import LoRA, Optimizer

    drawers.save_model(folder / "model", seed)
    learner = Learner(
        load_base(folder / "model"),
        lora=LoRA(rank=RANK, alpha=2 * RANK),
        optimizer=Optimizer(learning_rate=RATE),
        seed=seed,
    )
    learner.export(folder / "adapter")


def curve(folder: Path, who: str, python: str, seed: int, steps: int) -> dict[str, Any]:
    """Train in a process of its own.

    Args:
        folder: As `prepare` left it.
        who: `ours` or `trl`, on the drawers; in the corridor `whole`, whose calls all get the
            rollout's reward, or `per_call`, where each gets its own.
        python: The interpreter.
        seed: Of the tasks and their order.
        steps: Optimizer steps.
    """
    from ratchet.weights.rollouts import drawn

    job = {
        "folder": str(folder),
        "name": who,
        "seed": seed,
        "steps": steps,
        "tasks": TASKS,
        "group": GROUP,
        "pool": POOL,
        "rank": RANK,
        "rate": CREDIT_RATE if who in CREDIT else RATE,
        "world": "corridor" if who in CREDIT else "drawers",
        "per_call": who == "per_call",
        "discount": 0.0 if who == "per_call" else 1.0,
        "order": [i for step in range(steps) for i in drawn(TASKS, POOL, step, seed)],
    }
    path = folder / f"{who}.json"
    path.write_text(json.dumps(job))
    part = "with_trl.py" if who == "trl" else "with_ratchet.py"
    done = subprocess.run(
        [python, str(PARTS / part), str(path)], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    tail = found["rewards"][-max(1, steps // 10) :]
    found["final"] = sum(tail) / len(tail)
    found["area"] = sum(found["rewards"]) / steps
    print(
        f"seed {seed} {who:>8}: final {found['final']:.3f}, area {found['area']:.3f},"
        f" {found['wall_s']:.1f} s ({found['generate_s']:.1f} of generation),"
        f" {found['rss_mb']:.0f} MB",
        file=sys.stderr,
        flush=True,
    )
    return found
