"""Serves and trains a model on a GPU: not part of `make bench`, which needs none.

    python benchmarks/gpu/policy.py [--device DEVICE] [--model MODEL] [--words N] [--answers N]

Needs the extra train. Each check of `ratchet train doctor` runs on the device, in float32 and in
bfloat16: that trainer and sampler agree, and that new weights reach the sampler. Then the policy
server answers requests, many at once; and `ratchet improve` trains SmolLM2 on words
(benchmarks/parts/weights/words.py), by sft and by grpo. With `--device cpu` it runs on any machine.
The last line printed is one JSON object:

- device: what PyTorch calls it
- checks: type → sentence by check; failed: names of the checks that failed
- tokens_per_s: type → tokens a second of all answers
- trained: algorithm → verdict, baseline, candidate and seconds

The exit code is 1 when a check failed or a training ended with an error.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WORDS = ROOT / "benchmarks" / "parts" / "weights" / "words.py"
TYPES = ("float32", "bfloat16")
LENGTH = 64
"""Tokens of an answer."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--words", type=int, default=200)
    parser.add_argument("--answers", type=int, default=256)
    asked = parser.parse_args()

    import torch

    from ratchet.autopilot.train_doctor import check_training

    on_gpu = asked.device.startswith("cuda")
    checks: dict[str, dict[str, str]] = {}
    failed: list[str] = []
    speed: dict[str, float] = {}
    for dtype in TYPES:
        found = list(check_training(asked.model, device=asked.device, dtype=dtype))
        checks[dtype] = {check.name: check.sentence for check in found}
        failed += [f"{check.name} in {dtype}" for check in found if not check.passed]
        print(dtype, checks[dtype], file=sys.stderr, flush=True)
        speed[dtype] = round(_tokens_per_s(asked.model, asked.device, dtype, asked.answers))
    trained = {
        algorithm: _trained(algorithm, asked.device, asked.words) for algorithm in ("sft", "grpo")
    }
    print(
        json.dumps(
            {
                "device": torch.cuda.get_device_name(asked.device) if on_gpu else asked.device,
                "checks": checks,
                "failed": failed,
                "tokens_per_s": speed,
                "trained": trained,
            }
        )
    )
    return 1 if failed or any("error" in one for one in trained.values()) else 0


def _tokens_per_s(model: str, device: str, dtype: str, answers: int) -> float:
    """Tokens a second of answers that are asked for by 32 callers."""
    from openai import OpenAI

    from ratchet.models.policy import PolicyServer

    with PolicyServer(model, device=device, dtype=dtype, slots=32) as server:
        client = OpenAI(base_url=server.base_url, api_key=server.key, timeout=600, max_retries=0)

        def ask(number: int) -> int:
            said = client.chat.completions.create(
                model=server.name,
                messages=[{"role": "user", "content": f"Tell me of the number {number}."}],
                max_tokens=LENGTH,
            )
            assert said.usage is not None
            return said.usage.completion_tokens

        ask(0)
        began = time.monotonic()
        with ThreadPoolExecutor(32) as callers:
            tokens = sum(callers.map(ask, range(answers)))
        return tokens / (time.monotonic() - began)


def _trained(algorithm: str, device: str, count: int) -> dict[str, Any]:
    done = subprocess.run(
        [
            *(sys.executable, str(WORDS), "--algorithm", algorithm),
            *("--words", str(count), "--device", device),
        ],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    if not lines:
        return {"error": f"It ended with code {done.returncode}."}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


if __name__ == "__main__":
    sys.exit(main())
