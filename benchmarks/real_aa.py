"""Draws twenty answers a task from a language model on this machine, for a real A/A comparison.

    python benchmarks/real_aa.py --model PATH.gguf --output benchmarks/results/real_aa.json

The prompt and the model are the same for every answer, so any two sets of answers are equally good,
and a gate that promotes one of them is wrong. A task is a question from
`examples/stdlib_helper/tasks.jsonl` with four names of Python's standard library, one of them
right. The model answers at temperature 1, and an answer is right or wrong.

Answers are kept under `.bench/real_aa/` task by task: the same command goes on where it was
stopped. The file of the results has the scores only. Without --model nothing is drawn, and the
scores in `benchmarks/results/` are resampled, as `benchmarks/decisions.py` does. With --quick a few
answers of SmolLM2 are drawn, if it is in the cache.

Progress goes to stderr. The last line of stdout is one JSON object: the model, tasks, answers,
their mean score, the share of tasks whose answers differ in score, seconds; and for each gate the
share of A/A comparisons that it promoted, and of repeated ones in which it changed its verdict.
The exit code is 1 where Ratchet promoted more than its alpha and two standard errors, and 2 where
no answer could be drawn.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import openai

from parts.decisions.drawn_answers import (
    ALPHA,
    RESULTS,
    DrawnAnswers,
    flips,
    read_answers,
    write_answers,
)
from ratchet.models import LocalModel, ModelFile, ModelUnavailable, find_model
from ratchet.models.box import BOX, SMOLLM2
from ratchet.models.local_model import require_engine

ROOT = Path(__file__).resolve().parents[1]
QUESTIONS = ROOT / "examples" / "stdlib_helper" / "tasks.jsonl"
KEPT = ROOT / ".bench" / "real_aa"
PROMPT = (
    "Which of these names of Python's standard library is the question about?"
    " Answer with the name alone."
)
NAMES = 4
"""Names to choose from, one of them right."""
TEMPERATURE, MAX_TOKENS, TIMEOUT_S = 1.0, 16, 300.0


@dataclass(frozen=True)
class Task:
    """One question, and the answer that is right."""

    question: str
    names: tuple[str, ...]
    right: str

    def score(self, answer: str) -> float:
        """1 if the answer is the right name, with or without back quotes, else 0."""
        name = answer.strip().strip("`.").removesuffix("()")
        return float(name == self.right)


def tasks(count: int) -> list[Task]:
    """The same tasks each time, in the same order."""
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    known = sorted({name for row in rows for name in row["expected"]})
    rng = random.Random(0)
    rng.shuffle(rows)
    chosen = []
    for row in rows[:count]:
        right = row["expected"][0]
        others = [name for name in known if name not in row["expected"]]
        names = [right, *rng.sample(others, NAMES - 1)]
        rng.shuffle(names)
        chosen.append(Task(row["input"], tuple(names), right))
    return chosen


def asked_for(file: ModelFile, chosen: Sequence[Task], count: int) -> str:
    """Identifies what is drawn: answers to anything else are not continued."""
    everything = repr((file.version, PROMPT, TEMPERATURE, MAX_TOKENS, list(chosen), count))
    return hashlib.sha256(everything.encode()).hexdigest()[:16]


def drawn(file: ModelFile, chosen: Sequence[Task], count: int, kept: Path) -> list[list[float]]:
    """Scores of `count` answers to each task; those that are kept already are not drawn again."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    text = kept.read_text() if kept.exists() else ""
    whole = text[: text.rfind("\n") + 1]  # a kill may have cut the last line
    scores = [json.loads(line) for line in whole.splitlines()]
    if len(scores) >= len(chosen):
        return scores
    # One conversation at a time: the prompt of a task is read once for all of its answers.
    with LocalModel(file, slots=1, threads=1, context=1024) as model, kept.open("w") as lines:
        lines.write(whole)
        lines.flush()
        client = openai.OpenAI(base_url=model.base_url, api_key=model.key, timeout=TIMEOUT_S)
        for number in range(len(scores), len(chosen)):
            task = chosen[number]
            question = f"Names: {', '.join(task.names)}\nQuestion: {task.question}"
            row = []
            for seed in range(count):
                answer = client.chat.completions.create(
                    model=file.name,
                    messages=[
                        {"role": "system", "content": PROMPT},
                        {"role": "user", "content": question},
                    ],
                    temperature=TEMPERATURE,
                    max_tokens=MAX_TOKENS,
                    seed=1000 * number + seed,
                )
                row.append(task.score(answer.choices[0].message.content or ""))
            scores.append(row)
            lines.write(json.dumps(row) + "\n")
            lines.flush()
            print(f"task {number + 1} of {len(chosen)}: {sum(row):.0f} right", file=sys.stderr)
    return scores


def draw_answers(model: str, count: int, answers: int, *, anew: bool) -> DrawnAnswers:
    """So many answers of the model to so many tasks; `anew`, whatever is kept.

    Raises:
        ModelUnavailable: The model cannot be had or started.
        openai.OpenAIError: It does not answer.
    """
    require_engine()
    file = find_model(model, lambda text: print(text, file=sys.stderr))
    chosen = tasks(count)
    kept = KEPT / f"{asked_for(file, chosen, answers)}.jsonl"
    if anew:
        kept.unlink(missing_ok=True)
    scores = drawn(file, chosen, answers, kept)
    return DrawnAnswers(
        model=f"{file.header.name} ({file.path.name}, {file.bytes} bytes)",
        machine=f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        date=datetime.now(UTC).date().isoformat(),
        task=f"Which of {NAMES} names of Python's standard library is the question about?",
        temperature=TEMPERATURE,
        scores=tuple(tuple(row) for row in scores),
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="smollm2, or a file in GGUF format; by default none")
    parser.add_argument("--tasks", type=int, default=120)
    parser.add_argument("--answers", type=int, default=20, help="answers a task, at least 4")
    parser.add_argument("--output", type=Path, help="file for the scores that are drawn")
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="12 tasks, 4 answers, 50 resamples")
    options = parser.parse_args()
    if options.quick:
        options.tasks, options.answers, options.resamples = 12, 4, 50
        if options.model is None and BOX[SMOLLM2].is_fetched:
            options.model = "smollm2"
    if options.tasks < 10 or options.answers < 4 or options.resamples < 1:
        parser.error("at least 10 tasks, 4 answers and 1 resample are needed")
    began = time.monotonic()
    if options.model is None:
        print("Nothing is drawn without a model; kept scores are resampled.", file=sys.stderr)
        answers = read_answers(RESULTS)
    else:
        try:
            answers = draw_answers(
                options.model, options.tasks, options.answers, anew=options.quick
            )
        except (ModelUnavailable, openai.OpenAIError) as error:
            print(f"could not measure: {error}", file=sys.stderr)
            return 2
        if options.output is not None:
            write_answers(options.output, answers)
    result = flips(answers, options.resamples, seed=0)
    described = {name: value for name, value in asdict(answers).items() if name != "scores"}
    print(
        json.dumps(
            {
                **described,
                "tasks": len(answers.scores),
                "answers": len(answers.scores[0]),
                "mean": round(answers.mean, 4),
                "tasks_that_vary": round(answers.varying, 4),
                **result,
                "resamples": options.resamples,
                "seconds": round(time.monotonic() - began, 1),
            }
        )
    )
    error = math.sqrt(ALPHA * (1.0 - ALPHA) / options.resamples)
    return 1 if result["real_aa_ours"] > ALPHA + 2.0 * error else 0


if __name__ == "__main__":
    sys.exit(main())
