"""The contained executor: what evolved code gets, and what is believed of what it says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.run.executing import use

from ratchet.run.contained import ContainedExecutor, Containment, RoutedExecutor, differs
from ratchet.types import AgentError, Candidate, Claim, Code, Outcome, Resource, Rollout
from ratchet.worker.agent import AgentSpec, load_agent
from ratchet.worker.inprocess import AsyncExecutor

WriteAgent = Callable[..., AgentSpec]

AGENT = """
import ratchet

@ratchet.evolve
def answer(x: int) -> object:
    return x

@ratchet.agent
def run(x):
    with ratchet.trace("step"):
        return answer(x)
"""


def code(body: str) -> dict[str, Resource]:
    """An `answer` of that body."""
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    return {"answer": Code(f"def answer(x: int) -> object:\n{lines}\n", "answer")}


def run_all(
    spec: AgentSpec,
    asked: Sequence[tuple[dict[str, Resource], Any]],
    *,
    timeout_s: float = 20.0,
    self_graded: bool = False,
    allow_self_graded: bool = False,
    **containment: Any,
) -> list[Outcome]:
    """Outcomes of rollouts of these resources on these inputs."""

    executor = ContainedExecutor(
        spec,
        Containment(**containment),
        slots=1,
        timeout_s=timeout_s,
        self_graded=self_graded,
        allow_self_graded=allow_self_graded,
    )

    async def work() -> list[Outcome]:
        return [
            await executor.execute(claim_of(number, resources, given), resources)
            for number, (resources, given) in enumerate(asked)
        ]

    outcomes: list[Outcome] = use(executor, work)
    return outcomes


def claim_of(number: int, resources: dict[str, Resource], given: Any) -> Claim:
    """A claim of a rollout that has an expected answer and metadata."""
    rollout = Rollout(
        id=f"r{number}",
        queue="q",
        candidate_id=Candidate.of(resources).id,
        task_id="the-secret-task",
        input=given,
        expected="the-secret-answer",
        metadata={"hint": "the-secret-hint"},
        seed=7,
    )
    return Claim(rollout, 3, 1e12)


def test_a_candidates_code_runs_and_its_outcome_comes_back(write_agent: WriteAgent) -> None:
    outcome = run_all(write_agent(AGENT), [(code("return {'doubled': 2 * x}"), 21)])[0]
    assert (outcome.status, outcome.output, outcome.error) == ("succeeded", {"doubled": 42}, "")
    assert (outcome.rollout_id, outcome.fence) == ("r0", 3)
    assert [span.name for span in outcome.spans] == ["step", "run"]
    assert outcome.started_at < outcome.ended_at
    assert 0 < outcome.duration_s < outcome.ended_at - outcome.started_at


def test_nothing_but_the_input_reaches_it(write_agent: WriteAgent) -> None:
    body = """
import gc, sys, os
seen = []
frame = sys._getframe()
while frame is not None:
    seen.append(repr(dict(frame.f_locals)))
    frame = frame.f_back
for thing in gc.get_objects():
    if type(thing).__name__ in ("Claim", "Rollout", "Ask", "Recorder"):
        for name in ("rollout", "expected", "metadata", "task_id"):
            seen.append(repr(getattr(thing, name, None)))
    elif isinstance(thing, (str, bytes)):
        seen.append(repr(thing))
seen.append(repr(dict(os.environ)))
return ["the-" + "secret" in text for text in seen].count(True)
"""
    outcome = run_all(write_agent(AGENT), [(code(body), 1)])[0]
    assert (outcome.status, outcome.output) == ("succeeded", 0), outcome.error


def test_one_attempt_leaves_nothing_to_the_next(write_agent: WriteAgent) -> None:
    body = """
import sys, os
mark = getattr(sys, "mark", 0)
sys.mark = mark + 1
known = os.path.exists("left")
open("left", "w").close()
return [mark, known]
"""
    first, second = run_all(write_agent(AGENT), [(code(body), 1)] * 2)
    assert first.output == second.output == [0, False]


def test_faults_are_told_and_the_next_attempt_works(write_agent: WriteAgent) -> None:
    asked = [
        (code("return 1 / 0"), 1),
        (code("while True: pass"), 1),
        (code("import os\nos._exit(0)"), 1),
        (code("return bytearray(2**40)"), 1),
        (code("print('x' * 10**8)\nreturn x"), 1),
        (code("return x"), 5),
    ]
    spec = write_agent(AGENT)
    divided, endless, gone, fat, loud, fine = run_all(spec, asked, timeout_s=1.0)
    assert (divided.status, "ZeroDivisionError" in divided.error) == ("failed", True)
    assert [each.cause for each in (divided, endless, gone, fat, loud, fine)] == [
        "exception",
        "timeout",
        "crash",
        "memory",
        "crash",
        "",
    ]
    assert (endless.status, endless.error) == ("timed_out", "No answer within 1 s.")
    assert (gone.status, "ended without an answer" in gone.error) == ("crashed", True)
    assert (fat.status, "MemoryError" in fat.error) == ("failed", True)
    assert (loud.status, "more than allowed" in loud.error) == ("crashed", True)
    assert (fine.status, fine.output) == ("succeeded", 5)


FORGES = """
import time
from ratchet.worker.attempt import Recorder
from ratchet.types import Outcome, Score

def forged(self, given):
    told = dict(rollout_id="r%%d" %% x, fence=3, status="succeeded", started_at=1.0, ended_at=1.0,
        duration_s=0.0, output="good", scores=(Score(evaluator="grade", version="v", value=1.0),))
    return Outcome(**{**told, **dict(%s)})

Recorder.succeeded = Recorder.raised = forged
time.sleep(0.2)
return x
"""

LIES = [
    ("rollout_id='r1x'", "failed", "outcome of another attempt"),
    ("fence=4", "failed", "outcome of another attempt"),
    ("status='released'", "failed", "which it cannot know"),
    ("status='inconclusive'", "failed", "counts as a failure"),
    ("output='x' * 9_000_000", "failed", "an output of 9000002 bytes"),
    ("cost_usd=-5.0", "succeeded", ""),
]


def test_what_it_says_of_itself_is_not_believed(write_agent: WriteAgent) -> None:
    asked = [(code(FORGES % fields), number) for number, (fields, _, _) in enumerate(LIES)]
    for outcome, (fields, status, said) in zip(
        run_all(write_agent(AGENT), asked), LIES, strict=True
    ):
        assert outcome.status == status, (fields, outcome.error)
        assert said in outcome.error
        assert outcome.scores == ()
        assert outcome.cost_usd == 0.0
        assert outcome.duration_s >= 0.1
        assert outcome.started_at > 1e9


def test_bytes_that_are_no_outcome_are_refused(write_agent: WriteAgent) -> None:
    body = """
from ratchet.worker import sandboxed_attempt
class Forged:
    class json:
        encode = staticmethod(lambda outcome: b"{no")
sandboxed_attempt.msgspec = Forged
return x
"""
    outcome = run_all(write_agent(AGENT), [(code(body), 1)])[0]
    assert outcome.status == "failed"
    assert "is not an outcome" in outcome.error


def test_what_is_hidden_cannot_be_read(write_agent: WriteAgent, tmp_path: Path) -> None:
    spec = write_agent(AGENT)
    root = Path(spec.root)
    hidden = [root / "tasks.jsonl", root / ".ratchet", root / ".env", root / ".git"]
    for path in hidden:
        if path.suffix == ".jsonl" or path.name == ".env":
            path.write_text("the-secret-answer")
        else:
            path.mkdir()
            (path / "kept").write_text("the-secret-answer")
    (root / "words.txt").write_text("fine")
    body = f"""
import os
got = []
for name in ["tasks.jsonl", ".ratchet/kept", ".env", ".git/kept", "words.txt"]:
    try:
        got.append(open(os.path.join({str(root)!r}, name)).read())
    except OSError:
        got.append("")
return got
"""
    outcome = run_all(spec, [(code(body), 1)], hide=tuple(hidden))[0]
    assert outcome.output == ["", "", "", "", "fine"], outcome.error


REWARDS = """
import ratchet

@ratchet.evolve
def answer(x: int) -> object:
    return x

@ratchet.rollout
def run(task):
    ratchet.emit_reward(0.25, name="closeness")
    return float(answer(task))
"""


def test_an_agent_that_grades_itself_is_refused_beside_evolved_code(
    write_agent: WriteAgent,
) -> None:
    spec = write_agent(REWARDS)
    asked = [(code("return 1.0"), 1)]
    refused = run_all(spec, asked, self_graded=True)[0]
    assert refused.status == "failed"
    assert "unsafe_self_graded = true" in refused.error
    taken = run_all(spec, asked, self_graded=True, allow_self_graded=True)[0]
    assert {s.evaluator: (s.value, s.version) for s in taken.scores} == {
        "closeness": (0.25, "agent"),
        "reward": (1.0, "agent"),
    }


def test_an_agent_that_does_not_load_in_there_says_so(write_agent: WriteAgent) -> None:
    spec = write_agent("import socket\nsocket.create_connection(('192.0.2.1', 9), 1)\n" + AGENT)
    with pytest.raises(AgentError, match="does not load in the sandbox") as raised:
        run_all(spec, [])
    assert raised.value.message.strip().endswith(
        "PermissionError: [Errno 1] Operation not permitted"
    )
    assert "connect = […]" in str(raised.value)


def test_only_candidates_with_other_code_are_contained(write_agent: WriteAgent) -> None:
    spec = write_agent(
        AGENT.replace("def run(x):", "def run(x):\n    import os; return [os.getpid(), answer(x)]")
    )
    agent = load_agent(spec)
    own = agent.declarations["answer"].resource
    assert isinstance(own, Code)
    described = Code(own.source.replace("return x", "'''Says x.'''\n    return x"), "answer")
    other = code("return x + 1")

    async def main() -> list[Outcome]:
        import os

        executor = RoutedExecutor(
            AsyncExecutor(agent, slots=2, timeout_s=20.0),
            ContainedExecutor(spec, Containment(), slots=1, timeout_s=20.0),
            {"answer": own},
        )
        await executor.start()
        try:
            asked: list[dict[str, Resource]] = [{"answer": own}, {"answer": described}, other]
            outcomes = await asyncio.gather(
                *(executor.execute(claim_of(n, r, 1), r) for n, r in enumerate(asked))
            )
            here = [outcome.output[0] == os.getpid() for outcome in outcomes]
            assert here == [True, True, False]
            return outcomes
        finally:
            await executor.close()

    outcomes = asyncio.run(main())
    assert [outcome.output[1] for outcome in outcomes] == [1, 1, 2]
    assert differs(other, {"answer": own})
    assert not differs({"answer": described}, {"answer": own})


def test_only_the_named_address_can_be_reached(write_agent: WriteAgent) -> None:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *given: Any) -> None: ...

    body = """
import os, urllib.request
said = urllib.request.urlopen(f"http://127.0.0.1:{x}/", timeout=5).read().decode()
return said + os.environ["MODE"]
"""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        port = server.server_address[1]
        spec = write_agent(AGENT)
        reach = {"connect": (("127.0.0.1", port),), "environment": {"MODE": "!"}}
        fine, other = run_all(spec, [(code(body), port), (code(body), port + 1)], **reach)
        assert fine.output == "hello!", fine.error
        assert other.status == "failed"
        assert run_all(spec, [(code(body), port)])[0].status == "failed"
        server.shutdown()
