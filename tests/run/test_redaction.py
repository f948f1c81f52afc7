"""What rollouts of this machine do is redacted before it lies in the store, whoever stores it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.observe.redaction import corpus

from ratchet.observe.redaction import RedactionRules, Redactor
from ratchet.run import Executor, Runner, WorkerExecutor
from ratchet.run.left_outcomes import OUTBOX, store_left_outcomes
from ratchet.store import Store
from ratchet.types import Candidate, Outcome, Rollout, Span
from ratchet.worker.__main__ import _store
from ratchet.worker.agent import AgentSpec, load_agent
from ratchet.worker.inprocess import AsyncExecutor
from ratchet.worker.messages import WorkerSetup

# But for those that end where capture cut them: here they are cut, if at all, on their way.
PLANTED = [one for one in corpus.planted(seed=11, rounds=1) if one.place != "cut_at_limit"]
SECRET = "sk-proj-Ab3dEf7hIj1kLm5nOp9qRsT2"
MAIL = "ann@example.com"

AGENT = """
    import asyncio, json
    from pathlib import Path
    import ratchet

    SECRETS = json.loads((Path(__file__).parent / "secrets.json").read_text())

    @ratchet.tool
    def look(text, depth):
        return {"found": [text] * depth}

    @ratchet.tool
    def fails(text):
        raise ValueError(text)

    def run(number):
        for number, text in enumerate(SECRETS):
            look(text, 1 + number % 3)
            try:
                fails(text)
            except ValueError:
                pass
        raise LookupError(f"no room for {SECRETS[0]}")

    async def run_async(number):
        return await asyncio.to_thread(run, number)
"""


def on_disk(url: str) -> bytes:
    """Every byte of a database's files: pages that are free again, and the log, included."""
    path = Path(url.removeprefix("sqlite:///"))
    return b"".join(each.read_bytes() for each in sorted(path.parent.glob(f"{path.name}*")))


def leaked(found: bytes, planted: list[corpus.Planted]) -> list[corpus.Planted]:
    """Those of which something is there, as it is or as it stands in JSON."""

    def is_there(needle: str) -> bool:
        return any(form.encode() in found for form in (needle, json.dumps(needle)[1:-1]))

    return [one for one in planted if any(map(is_there, one.needles))]


def run(runner: Runner, rollouts: list[Rollout], candidate: Candidate) -> Mapping[str, Rollout]:
    async def go() -> Mapping[str, Rollout]:
        async with runner:
            return await runner.run(rollouts, [candidate])

    return asyncio.run(go())


@pytest.mark.parametrize("kind", ["in processes", "in this process"])
def test_no_planted_secret_of_a_rollout_reaches_the_database(
    write_agent: Callable[..., AgentSpec],
    pool: Callable[..., WorkerExecutor],
    rollouts: Callable[..., list[Rollout]],
    candidate: Candidate,
    lite: Store,
    sqlite_url: str,
    kind: str,
) -> None:
    asynchronous = kind == "in this process"
    spec = write_agent(AGENT, "run_async" if asynchronous else "run")
    Path(spec.root, "secrets.json").write_text(json.dumps([one.text for one in PLANTED]))
    executor: Executor = (
        AsyncExecutor(load_agent(spec), slots=2, timeout_s=60) if asynchronous else pool(spec)
    )
    done = run(Runner(lite, "agent", executor), rollouts(1), candidate)
    stored = lite.rollouts.get(["r0"])["r0"]
    spans = lite.spans.of("r0")
    assert len(spans) == 1 + 2 * len(PLANTED)
    found = on_disk(sqlite_url)
    assert found.count(b"[redacted:") >= 2 * len(PLANTED)
    assert leaked(found, PLANTED) == []
    # Whoever waited for it reads what the store has, as after a restart.
    assert stored.error == done["r0"].error
    assert "LookupError" in stored.error


def test_inputs_and_outputs_that_evaluators_compare_are_kept_and_rules_are_the_project_s(
    write_agent: Callable[..., AgentSpec],
    rollouts: Callable[..., list[Rollout]],
    candidate: Candidate,
    lite: Store,
) -> None:
    agent = load_agent(
        write_agent(
            """
            import ratchet
            @ratchet.tool
            async def look(text): ...
            async def run(mail):
                await look(f"EMP-123456 {mail}")
                return mail
            """
        )
    )
    rules = RedactionRules(patterns={"staff": r"EMP-\d{6}"}, rules=("-email",))
    executor = AsyncExecutor(agent, slots=1, timeout_s=60)
    runner = Runner(lite, "agent", executor, redactor=Redactor(rules))
    done = run(runner, rollouts(MAIL), candidate)
    assert (done["r0"].input, done["r0"].output) == (MAIL, MAIL)
    look = next(span for span in lite.spans.of("r0") if span.name == "look")
    assert f"[redacted:staff] {MAIL}" in json.dumps(look.attributes)


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ({}, "[redacted:key]"),
        ({"enabled": False}, SECRET),
        ({"pseudonyms": True}, None),  # without their secret: no contents rather than all of them
    ],
)
def test_a_worker_whose_parent_is_gone_redacts_what_it_stores(
    rollouts: Callable[..., list[Rollout]],
    candidate: Candidate,
    lite: Store,
    sqlite_url: str,
    tmp_path: Path,
    rules: dict[str, object],
    kept: str | None,
) -> None:
    lite.candidates.put(candidate)
    lite.rollouts.create(rollouts(1), now=1.0)
    claim = lite.rollouts.claim("agent", "w", 1, 60.0, now=2.0)[0]
    step = {"trace_id": "1" * 32, "span_id": "1" * 16, "name": "look"}
    span = Span(**step, start_ns=1, end_ns=2, attributes={"ratchet.input": f"use {SECRET}"})
    outcome = Outcome(
        rollout_id="r0",
        fence=claim.fence,
        status="succeeded",
        started_at=2.0,
        ended_at=3.0,
        duration_s=1.0,
        output=MAIL,
        spans=(span,),
    )
    setup = WorkerSetup(
        agent=AgentSpec(entry="a:b", root="."),
        timeout_s=1.0,
        memory_bytes=2**31,
        scratch="",
        outbox=str(tmp_path / OUTBOX),
        redaction=rules,
    )
    _store(setup, [outcome])
    (left,) = (tmp_path / OUTBOX).iterdir()
    assert (SECRET.encode() in left.read_bytes()) == (kept == SECRET)
    store_left_outcomes(lite, tmp_path)
    assert not list((tmp_path / OUTBOX).iterdir())
    assert lite.rollouts.get(["r0"])["r0"].output == MAIL
    attributes = lite.spans.of("r0")[0].attributes
    assert attributes.get("ratchet.input") == (f"use {kept}" if kept else None)
    assert (SECRET.encode() in on_disk(sqlite_url)) == (kept == SECRET)
