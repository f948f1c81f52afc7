"""A store with something on every page: a demo's run, live traffic, a cycle, a release, faults."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from ratchet.autopilot.problem_scan import scan
from ratchet.cli.demo import Variant, _build, _git
from ratchet.prove import ShadowPair
from ratchet.store import Store
from ratchet.types import (
    Activation,
    AgentSettings,
    Candidate,
    CardCheck,
    CardOutput,
    Cycle,
    CycleTransition,
    Dataset,
    Feedback,
    PromptTemplate,
    Release,
    ReportCard,
    Rollout,
    Span,
    SpanRecord,
    StageDecision,
    SubgroupResult,
    Task,
)
from ratchet.weights.metrics import append_metrics

AGENT = "support"
CYCLE = "c0ffee00" * 4
BIG, HOSTILE, ROOTLESS, CYCLIC, BACKWARDS, LONG = (f"{number:032x}" for number in range(1, 7))
"""Ids of the traces that are no everyday ones."""

HOSTILE_TEXTS = (
    "<img src=x onerror=window.hit=1>",
    "<svg><script>window.hit=2</script></svg>",
    '<a href="javascript:window.hit=3">press</a>',
    "[press](javascript:window.hit=4)",
    "\x1b[31mred\x1b[0m \u202egnp.exe \u200b{{window.hit=5}} ${window.hit=6}",
    '"><iframe src="https://evil.example"></iframe><style>*{display:none}</style>',
)


QUESTIONS, ROLLOUTS = 400, 1_200
"""Of the demo here: enough for a proof, in a fifth of the time."""


def make_demo(folder: Path) -> Path:
    """Run the demo, a smaller one: a baseline, candidates, a proof, and a branch."""
    _build(folder, Variant())
    tasks = folder / "tasks.jsonl"
    tasks.write_text("".join(tasks.read_text().splitlines(keepends=True)[:QUESTIONS]))
    config = folder / "ratchet.toml"
    settings = config.read_text().replace(
        "-m unittest discover -q", "-m unittest -q tests.test_words"
    )
    config.write_text(re.sub("(?m)^rollouts = .*", f"rollouts = {ROLLOUTS}", settings))
    assert _git(folder, "commit", "--quiet", "--all", "--message=A smaller one").returncode == 0
    command = [sys.executable, "-m", "ratchet", "demo", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert (folder / ".ratchet" / "ratchet.db").is_file()
    return folder


def span(trace: str, number: int, parent: int | None, start_s: float, **more: Any) -> Span:
    """A span of a trace; ids are the numbers in hexadecimal."""
    begun = int(start_s * 1e9)
    took = more.pop("took_s", 0.01)
    return Span(
        trace_id=trace,
        span_id=f"{number:016x}",
        parent_id=None if parent is None else f"{parent:016x}",
        name=more.pop("name", f"step {number}"),
        start_ns=begun,
        end_ns=begun + int(took * 1e9),
        **more,
    )


def chat(question: str, answer: str, conversation: str) -> dict[str, Any]:
    """Attributes of a model call."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.provider.name": "openai",
        "gen_ai.usage.input_tokens": 900,
        "gen_ai.usage.output_tokens": 60,
        "gen_ai.conversation.id": conversation,
        "gen_ai.input.messages": json.dumps(
            [{"role": "user", "parts": [{"type": "text", "content": question}]}]
        ),
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": answer}]}]
        ),
    }


def live_trace(number: int, at: float, *, failed: bool = False) -> list[Span]:
    """An everyday trace: the agent, a model call, a tool."""
    trace = f"{number + 1000:032x}"
    status = {"status": "error", "message": "Timeout: the tool did not answer"} if failed else {}
    call = chat(
        f"Where is order {number}?", f"Order {number} is on its way.", f"talk-{number // 3}"
    )
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.call.arguments": json.dumps({"order": number}),
        "gen_ai.tool.call.result": "on its way",
    }
    return [
        span(trace, 1, None, at, took_s=1.4, name="invoke_agent support", **status),
        span(trace, 2, 1, at + 0.05, took_s=0.9, name="chat gpt-4o-mini", attributes=call),
        span(
            trace, 3, 1, at + 1.0, took_s=0.3, name="execute_tool find", attributes=tool, **status
        ),
    ]


def odd_traces(now: float) -> list[Span]:
    """Traces that a page must survive."""
    big = [span(BIG, 1, None, now - 50, took_s=20, name="big")]
    for number in range(2, 10_001):
        parent = number - 1 if number < 900 else 2 + number % 800
        big.append(span(BIG, number, parent, now - 50 + number / 1000, took_s=0.2))
    hostile = [
        span(
            HOSTILE,
            1,
            None,
            now - 40,
            name=HOSTILE_TEXTS[0],
            attributes=chat(*HOSTILE_TEXTS[:2], "h"),
        ),
        *(
            span(
                HOSTILE,
                number,
                1,
                now - 39,
                name=text,
                status="error",
                message=text,
                attributes={"note": text, "gen_ai.tool.call.result": text, text: "key"},
            )
            for number, text in enumerate(HOSTILE_TEXTS, start=2)
        ),
    ]
    return [
        *big,
        *hostile,
        span(ROOTLESS, 2, 1, now - 30, name="without its root"),
        span(CYCLIC, 1, 3, now - 20, name="cycle a"),
        span(CYCLIC, 2, 1, now - 19, name="cycle b"),
        span(CYCLIC, 3, 2, now - 18, name="cycle c"),
        span(BACKWARDS, 1, None, now - 10, took_s=-5, name="backwards"),
        span(BACKWARDS, 2, 1, now - 14, took_s=1, name="before its parent"),
        span(
            LONG, 1, None, now - 5, name="long", attributes=chat("x" * 5_000_000, "y " * 9_000, "l")
        ),
    ]


def canary_traces(now: float, candidate_id: str) -> list[Span]:
    """Calls in the canary of the seeded cycle: three of the candidate, two of the baseline."""
    found = []
    for number, arm in enumerate(("candidate", "baseline", "candidate", "baseline", "candidate")):
        recorded = {
            "ratchet.experiment_id": CYCLE,
            "ratchet.arm": arm,
            "ratchet.group": "refunds" if number < 3 else "orders",
            **({"ratchet.candidate_id": candidate_id} if arm == "candidate" else {}),
        }
        trace, at = f"{number + 700:032x}", now - 86_400 * 10 + number
        found.append(span(trace, 1, None, at, name="invoke_agent support", attributes=recorded))
        found.append(span(trace, 2, 1, at, name="execute_tool find"))
    return found


def fill(folder: Path) -> Path:
    """Fill the project of a demo's run."""
    now = time.time()
    with Store.open(f"sqlite:///{folder}/.ratchet/ratchet.db") as store:
        _training(store, folder / ".ratchet" / "training", now)
        seed(store, now)
        asyncio.run(scan(store, now=now))
    return folder


def seed(store: Store, now: float) -> None:
    """Fill a store that already has a demo's run."""
    spans = [
        each
        for number in range(90)
        for each in live_trace(number, now - 3600 * (2 + number * 1.8), failed=number % 9 == 0)
    ]
    store.spans.put([SpanRecord(span=each, agent=AGENT) for each in [*spans, *odd_traces(now)]])
    store.feedback.add(
        [
            Feedback(
                id=f"f{n}",
                kind="thumbs",
                value=float(n % 4 != 0),
                trace_id=f"{n + 1000:032x}",
                comment="late",
            )
            for n in range(0, 40, 2)
        ],
        now,
    )
    better = _release(store, now)
    canary = canary_traces(now, better.id)
    store.spans.put([SpanRecord(span=each, agent=AGENT) for each in canary])
    mirrored = [
        Rollout(
            id=f"mirrored-{number}",
            queue="shadow-c0ffee00",
            candidate_id=better.id,
            task_id=f"t{number}",
            input="Where is it?",
            purpose=f"shadow/{CYCLE}",
        )
        for number in range(4)
    ]
    store.rollouts.create(mirrored, now - 5_000)
    store.rollouts.cancel([each.id for each in mirrored], now - 5_000)
    _cycle(store, now)
    run = store.runs.list(1)[0]
    dataset = store.datasets.get(run.dataset_version)
    first = dataset.tasks[0]
    grown = Dataset(
        dataset.name,
        (
            *dataset.tasks[1:],
            Task(first.id, {"question": "changed"}, "new"),
            Task("added", {"question": HOSTILE_TEXTS[0]}),
        ),
        {**dataset.splits, "added": "train"},
        parent=dataset.version,
        reason="One task was corrected and one added.",
    )
    store.datasets.put(grown)
    store.report_cards.put(_card(store, now))
    store.keys.create("a program", ("ingest",), now)


def _release(store: Store, now: float) -> Candidate:
    source = Candidate.of({"system": PromptTemplate(text="You answer questions about orders.")})
    better = source.derive(
        {
            "system": PromptTemplate(
                text="You answer questions about orders. Name the day of arrival."
            )
        },
        algorithm="apo",
        reason="Users asked again for the day.",
    )
    for candidate in (source, better):
        store.candidates.put(candidate, now)
    store.agents.put(AgentSettings(name=AGENT, substitute=True), now)
    store.agents.activate(
        Activation(agent=AGENT, candidate_id=better.id, activated_at=now - 600, reason="Promoted.")
    )
    store.releases.put(
        Release(
            id="5e1ea5e0" * 4,
            experiment_id=store.experiments.list(1)[0].id,
            candidate_id=better.id,
            baseline_id=source.id,
            state="active",
            repo="",
            branch="",
            base="",
            commit="",
            pull_request="",
            evidence="",
            created_at=now - 600,
            agent=AGENT,
        )
    )
    return better


def _cycle(store: Store, now: float) -> None:
    cycle = Cycle(
        id=CYCLE,
        agent=AGENT,
        state="capture",
        trigger="Feedback of support fell from 0.81 to 0.62 in three days.",
        started_at=now - 7200,
        entered_at=now - 7200,
        updated_at=now - 7200,
        decisions=(_stage(), _canary()),
    )
    batch = {"observations": msgspec.to_builtins(mirrored_pairs()), "cursor": None}
    store.journal.append(CYCLE, "shadow/batch/000000", batch, now)
    moves = [("idle", "capture"), ("capture", "learn"), ("learn", "approval")]
    for number, (source, target) in enumerate(moves, start=1):
        at = now - 7200 + 1800 * number
        cycle = msgspec.structs.replace(
            cycle,
            state=target,
            version=number,
            entered_at=at,
            updated_at=at,
            candidate_id=store.releases.list(1)[0].candidate_id if target == "approval" else "",
            waits="It waits for a person's approval." if target == "approval" else "",
        )
        move = CycleTransition(
            cycle_id=cycle.id,
            number=number,
            source=source,  # type: ignore[arg-type]
            target=target,  # type: ignore[arg-type]
            rule=f"{target} may follow {source}.",
            inputs="0",
            actor="autopilot",
            at=at,
        )
        store.cycles.put(cycle, move)


def mirrored_pairs() -> list[ShadowPair]:
    """What the shadow stage of the seeded cycle saw: four pairs, one blocked and one unscored."""
    pairs = [
        ShadowPair(
            trace_id=f"{number + 1000:032x}",
            rollout_id=f"mirrored-{number}",
            baseline=0.6 + number / 100,
            candidate=0.7,
            group="refunds" if number < 2 else "orders",
        )
        for number in range(4)
    ]
    blocked = ShadowPair(trace_id=f"{1004:032x}", baseline=0.5, blocked="It was stopped.")
    return [*pairs, blocked, ShadowPair(trace_id=f"{1005:032x}", candidate=0.5)]


def _stage() -> StageDecision:
    groups = (("refunds", 0.7, 0.4, 90.0, True), ("orders", 0.6, 0.8, 0.1, False))
    return StageDecision(
        stage="shadow",
        verdict="pass",
        metric="helpful",
        alpha=0.05,
        baseline_count=4,
        candidate_count=4,
        baseline=0.62,
        candidate=0.71,
        e_value=25.0,
        needed=20.0,
        interval=(0.02, 0.16),
        blocked=1,
        missing=1,
        subgroups=tuple(
            SubgroupResult(
                group=group,
                count=2,
                baseline=before,
                candidate=after,
                e_value=evidence,
                harmed=harmed,
            )
            for group, before, after, evidence, harmed in groups
        ),
        sentence="The candidate is no worse on mirrored calls; it is worse in refunds.",
    )


def _canary() -> StageDecision:
    return StageDecision(
        stage="canary",
        verdict="pass",
        metric="helpful",
        alpha=0.05,
        baseline_count=2,
        candidate_count=3,
        baseline=0.62,
        candidate=0.7,
        e_value=21.0,
        needed=20.0,
        subgroups=tuple(
            SubgroupResult(
                group=group, count=count, baseline=0.6, candidate=0.7, e_value=0.2, harmed=False
            )
            for group, count in (("refunds", 3), ("orders", 2))
        ),
        sentence="The candidate is no worse on live calls.",
    )


def _card(store: Store, now: float) -> ReportCard:
    """Of 150 outputs with five different scores, about as often right as the scores say, and two
    without a score."""
    rollouts, _ = store.rollouts.list(status="succeeded", limit=152)
    scores = (0.1, 0.3, 0.5, 0.7, 0.9)
    right = [round(30 * at**1.3) for at in scores]
    outputs = [
        CardOutput(
            rollout_id=rollout.id,
            score=scores[number // 30] if number < 150 else None,
            label=float(number % 30 < right[number // 30]) if number < 150 else None,
        )
        for number, rollout in enumerate(rollouts)
    ]

    def check(name: str, value: float, n: int, detail: str = "") -> CardCheck:
        return CardCheck(
            name=name,
            value=value,
            low=max(0.0, value - 0.08),
            high=min(1.0, value + 0.07),
            n=n,
            verdict="decides",
            detail=detail,
        )

    return ReportCard(
        id="ca4d0000" * 4,
        evaluator="answers_the_question",
        version="v1",
        verdict="decides",
        reasons=("It agrees with people's labels.",),
        checks=(
            check("kappa", 0.71, 150, "Kappa 0.71 with people on 150 outputs."),
            check("true positive rate", 0.9, sum(right), "90 % of right outputs pass."),
            check("damage", 0.98, 240, "A right output scored above its damaged copy."),
            check("unscored", 2 / 152, 152, "2 of 152 outputs got no score."),
            *(
                check(f"calibration at {at:.2f}", r / 30, 30)
                for at, r in zip(scores, right, strict=True)
            ),
        ),
        labels=150,
        rollouts=len(outputs),
        outputs=tuple(outputs),
        created_at=now,
    )


def _training(store: Store, folder: Path, now: float) -> None:
    """Two training runs of one run: one from rollouts, one from recorded answers."""
    run = store.runs.list(1)[0]
    for name in ("grpo", "sft"):
        (folder / f"{run.id}-{name}").mkdir(parents=True)
    learned, imitated = folder / f"{run.id}-grpo", folder / f"{run.id}-sft"
    rollouts: list[Rollout] = []
    for step in range(31):
        weights = Candidate.of(
            {"system": PromptTemplate(text=f"Stands for the weights of {step}.")}
        )
        store.candidates.put(weights, now)
        batches = {f"train/{run.id}/train-{step:05d}": 8}
        if step % 10 == 0:
            low, value, high = 0.2 + step / 100, 0.3 + step / 100, 0.4 + step / 100
            val = {"value": value, "low": low, "high": high, "count": 5, "candidate": weights.id}
            append_metrics(learned, {"step": step, "val": val})
            batches[f"learn/{run.id}"] = 5
        for purpose, count in batches.items():
            rollouts += [
                Rollout(
                    id=f"{purpose.replace('/', '-')}-{step}-{number}",
                    queue=run.id,
                    candidate_id=weights.id,
                    task_id=f"t{number}",
                    input="How many?",
                    purpose=purpose,
                )
                for number in range(count)
            ]
        record = {"rollouts": 8, "reward": 0.3 + step / 100, "kl": 0.001 * step, "gap": 0.01}
        purpose = f"train/{run.id}/train-{step:05d}"
        record = {"step": step + 1, "purpose": purpose, "loss": -0.1, "tokens": 900, **record}
        append_metrics(learned, record)
        append_metrics(imitated, {"step": step + 1, "loss": 2.0 / (step + 1), "tokens": 700})
    store.rollouts.create(rollouts, now - 9_000)
    store.rollouts.cancel([each.id for each in rollouts], now - 9_000)


if __name__ == "__main__":  # a store to look at: python -m tests.dashboard.seeded FOLDER
    fill(make_demo(Path(sys.argv[1])))
