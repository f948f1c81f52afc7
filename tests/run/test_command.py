"""The command executor: programs of any language, however they behave."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.run.executing import use
from tests.waiting import alive, until_async

from ratchet.observe.ids import attempt_span_id, attempt_trace_id
from ratchet.run.command import CommandExecutor, task_json
from ratchet.run.handover import parse_command
from ratchet.run.program_results import last_line, result_of
from ratchet.types import (
    AgentError,
    Candidate,
    Claim,
    ConfigError,
    Outcome,
    PromptTemplate,
    Rollout,
)
from ratchet.worker.environment import trace_variables

Claims = Callable[..., list[Claim]]
Write = Callable[..., CommandExecutor]


@pytest.fixture
def program(tmp_path: Path) -> Write:
    """An executor for a Python program of that source."""

    def write(source: str, **options: Any) -> CommandExecutor:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        (folder / "program.py").write_text(textwrap.dedent(source))
        settings = {"slots": 2, "timeout_s": 30.0, "state": tmp_path / "state", **options}
        return CommandExecutor([sys.executable, "program.py"], folder=folder, **settings)

    return write


def run(
    executor: CommandExecutor, *claims: Claim, resources: Mapping[str, Any] = {}
) -> list[Outcome]:
    """Run attempts at the same time."""

    async def work() -> list[Outcome]:
        return await asyncio.gather(*(executor.execute(claim, resources) for claim in claims))

    outcomes: list[Outcome] = use(executor, work)
    return outcomes


def left_in(tmp_path: Path) -> list[str]:
    return os.listdir(tmp_path / "state" / "tmp")


def test_a_program_gets_its_task_and_its_result_is_the_output(
    program: Write, claims: Claims, candidate: Candidate, tmp_path: Path
) -> None:
    executor = program("""
        import json, os, sys
        task = json.load(sys.stdin)
        assert task == json.load(open(os.environ["RATCHET_TASK_FILE"]))
        assert os.path.isdir(os.environ["RATCHET_SCRATCH"])
        print(json.dumps({**task, "folder": os.path.basename(os.getcwd())}))
    """)
    claim = claims({"q": "é"}, expected="secret answer", metadata={"m": 1})[0]
    (outcome,) = run(executor, claim, resources=candidate.resources)
    assert outcome.status == "succeeded", outcome.error
    assert outcome.output == {
        "rollout_id": "r0",
        "attempt": 1,
        "task_id": "t0",
        "input": {"q": "é"},
        "metadata": {"m": 1},
        "seed": 1000,
        "candidate_id": candidate.id,
        "resources": json.loads(task_json(claim, candidate.resources))["resources"],
        "folder": "project",
    }
    assert outcome.output["resources"]["knobs"]["values"] == {"k": 9}
    assert "secret answer" not in json.dumps(outcome.output), "the answer is not for the agent"
    assert left_in(tmp_path) == []


def test_the_attempt_is_a_span_under_which_others_can_stand(program: Write, claims: Claims) -> None:
    executor = program("import os; print(os.environ['TRACEPARENT'])")
    (outcome,) = run(executor, claims("hello")[0])
    (span,) = outcome.spans
    assert span.trace_id == attempt_trace_id("r0", 1)
    assert span.span_id == attempt_span_id("r0", 1)
    assert outcome.output == f"00-{span.trace_id}-{span.span_id}-01"
    assert span.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert span.attributes["ratchet.input"] == '"hello"'
    assert span.attributes["ratchet.output"] == json.dumps(outcome.output)
    assert (span.parent_id, span.status, outcome.cost_usd) == (None, "ok", 0.0)
    assert span.end_ns > span.start_ns


def test_a_program_in_python_resolves_its_prompts_to_the_candidate(
    program: Write, claims: Claims
) -> None:
    executor = program("""
        import json, ratchet
        from ratchet.bind import current_seed
        SYSTEM = ratchet.prompt("system", "the source's own")
        print(json.dumps([str(SYSTEM), current_seed()]))
    """)
    resources = {"system": PromptTemplate("the candidate's")}
    with_candidate, without = (
        run(executor, claims("x")[0], resources=resources)[0],
        run(executor, claims("x")[0])[0],
    )
    assert with_candidate.output == ["the candidate's", 1000]
    assert without.output == ["the source's own", 1000]


def test_a_tool_with_side_effects_does_not_act(program: Write, claims: Claims) -> None:
    executor = program("""
        import ratchet
        @ratchet.tool(side_effects=True)
        def send():
            open("sent", "w")
        send()
    """)
    (outcome,) = run(executor, claims("x")[0])
    assert outcome.status == "inconclusive"
    assert "'send' has side effects" in outcome.error


def test_keys_are_not_in_the_programs_environment(program: Write, claims: Claims) -> None:
    environ = {
        **os.environ,
        "RATCHET_KEY": "rk_hush",
        "RATCHET_STORE": "postgresql://me:hush@db/ratchet",
        "OPENAI_API_KEY": "sk-hush",
        "ANTHROPIC_API_KEY": "sk-ant-hush",
        "ANTHROPIC_AUTH_TOKEN": "hush",
        "MINE": "kept",
    }
    source = """
        import json, os
        raw = open("/proc/self/environ").read() if os.path.exists("/proc/self/environ") else ""
        print(json.dumps({**os.environ, "raw": raw}))
    """
    claim = Claim(claims("x")[0].rollout, 3, 1e12, "ra_token")
    executor = program(source, environ=environ, server="http://server:1")
    (outcome,) = run(executor, claim)
    seen = outcome.output
    assert "hush" not in json.dumps(seen)
    assert seen["MINE"] == "kept"
    assert seen["OPENAI_API_KEY"] == seen["ANTHROPIC_API_KEY"] == "ra_token"
    assert seen["OPENAI_BASE_URL"] == "http://server:1/gateway/r0@3/openai/v1"
    assert seen["OPENAI_API_BASE"] == seen["OPENAI_BASE_URL"]
    assert seen["ANTHROPIC_BASE_URL"] == "http://server:1/gateway/r0@3/anthropic"
    assert (seen["RATCHET_ROLLOUT_ID"], seen["RATCHET_ATTEMPT"]) == ("r0", "3")
    assert seen["RATCHET_SEED"] == "1000"


def test_without_a_server_the_providers_keys_stay(program: Write, claims: Claims) -> None:
    environ = {**os.environ, "OPENAI_API_KEY": "sk-mine", "RATCHET_KEY": "rk_hush"}
    source = "import json, os; print(json.dumps(dict(os.environ)))"
    (outcome,) = run(program(source, environ=environ), claims("x")[0])
    assert outcome.output["OPENAI_API_KEY"] == "sk-mine"
    assert "OPENAI_BASE_URL" not in outcome.output
    assert "RATCHET_KEY" not in outcome.output


@pytest.mark.parametrize(
    ("source", "status", "error"),
    [
        ("import sys; sys.exit(1)", "failed", "ended with exit code 1."),
        (
            "import sys; print('why', file=sys.stderr); sys.exit(3)",
            "failed",
            "ended with exit code 3. Its last output:\nwhy",
        ),
        ("print('only here'); raise SystemExit(4)", "failed", "only here"),
        ("1/0", "failed", "ZeroDivisionError"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed", "SIGSEGV"),
        ("import sys; sys.stderr.buffer.write(b'\\xff\\xfe'); sys.exit(1)", "failed", "\ufffd"),
    ],
)
def test_a_program_that_ends_badly_fails_with_its_last_words(
    program: Write, claims: Claims, source: str, status: str, error: str
) -> None:
    (outcome,) = run(program(source), claims("x")[0])
    assert outcome.status == status
    assert error in outcome.error
    assert outcome.spans[0].status == "error"


def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path, claims: Claims) -> None:
    (tmp_path / "agent.sh").write_text(
        "sleep 600 &\necho so far so good >&2\necho $$ $! > pids\nwait\n"
    )
    executor = CommandExecutor(
        ["sh", "agent.sh"], folder=tmp_path, state=tmp_path / "state", slots=1, timeout_s=1.5
    )
    (outcome,) = run(executor, claims("x")[0])
    assert outcome.status == "timed_out"
    assert "No answer within 1.5 s" in outcome.error
    assert "so far so good" in outcome.error
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    asyncio.run(until_async(lambda: all(not alive(pid) for pid in pids)))
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("own_session", [False, True])
def test_children_that_a_program_leaves_behind_neither_hold_it_up_nor_live_on(
    program: Write, claims: Claims, tmp_path: Path, own_session: bool
) -> None:
    executor = program(f"""
        import subprocess
        child = subprocess.Popen(["sleep", "600"], start_new_session={own_session})
        open("pids", "w").write(str(child.pid))
        print("done")
    """)
    (outcome,) = run(executor, claims("x")[0])
    pid = int((tmp_path / "project" / "pids").read_text())
    if own_session:  # which it may have: only its result must not wait for it
        os.kill(pid, signal.SIGKILL)
    assert (outcome.status, outcome.output) == ("succeeded", "done")
    assert outcome.duration_s < 20
    asyncio.run(until_async(lambda: not alive(pid)))


def test_a_cancelled_attempt_kills_its_program(
    program: Write, claims: Claims, tmp_path: Path
) -> None:
    executor = program("""
        import os, time
        open("pids", "w").write(str(os.getpid()))
        time.sleep(600)
    """)
    pids = tmp_path / "project" / "pids"

    async def main() -> None:
        await executor.start()
        running = asyncio.create_task(executor.execute(claims("x")[0], {}))
        await until_async(lambda: pids.exists() and pids.read_text() != "")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until_async(lambda: not alive(int(pids.read_text())))

    asyncio.run(main())
    assert left_in(tmp_path) == []


def test_a_flood_on_standard_output_is_cut_off(program: Write, claims: Claims) -> None:
    executor = program("""
        import sys
        for _ in range(1000):
            sys.stdout.write("x" * 100_000)
    """)
    before = psutil.Process().memory_info().rss
    (outcome,) = run(executor, claims("x")[0])
    assert outcome.status == "failed"
    assert "printed more than" in outcome.error
    assert psutil.Process().memory_info().rss - before < 64 * 1024 * 1024


def test_a_flood_on_standard_error_is_read_and_its_end_is_kept(
    program: Write, claims: Claims
) -> None:
    source = """
        import sys
        for _ in range(1000):
            sys.stderr.write("x" * 100_000)
        print("the end", file=sys.stderr)
        print("fine")
        sys.exit(%d)
    """
    before = psutil.Process().memory_info().rss
    (good,) = run(program(source % 0), claims("x")[0])
    (bad,) = run(program(source % 1), claims("x")[0])
    assert (good.status, good.output) == ("succeeded", "fine")
    assert bad.error.endswith("the end")
    assert len(bad.error) <= 4_000
    assert psutil.Process().memory_info().rss - before < 64 * 1024 * 1024


def test_a_program_that_is_not_there_is_told_before_anything_runs(tmp_path: Path) -> None:
    def start(*command: str, folder: Path = tmp_path) -> None:
        executor = CommandExecutor(command, folder=folder, state=tmp_path, slots=1, timeout_s=1)
        asyncio.run(executor.start())

    with pytest.raises(AgentError, match="'no-such-program' was not found on the PATH"):
        start("no-such-program", "x")
    (tmp_path / "plain.txt").write_text("no program")
    with pytest.raises(AgentError, match=r"'\./plain\.txt' was not found in"):
        start("./plain.txt")
    with pytest.raises(AgentError, match="there is no such folder"):
        start(sys.executable, folder=tmp_path / "nowhere")


def test_a_program_that_vanishes_fails_its_rollout(tmp_path: Path, claims: Claims) -> None:
    script = tmp_path / "agent.sh"
    script.write_text("#!/bin/sh\necho hi\n")
    script.chmod(0o755)
    executor = CommandExecutor(
        ["./agent.sh"], folder=tmp_path, state=tmp_path / "state", slots=1, timeout_s=9
    )
    assert run(executor, claims("x")[0])[0].output == "hi"
    script.write_text("#!/no/such/interpreter\n")
    (outcome,) = run(executor, claims("x")[0])
    assert outcome.status == "failed"
    assert "cannot be started" in outcome.error


def test_command_lines_are_split_as_a_shell_does_and_run_by_none() -> None:
    assert parse_command("node 'my agent.js' --x \"$HOME\"") == (
        "node",
        "my agent.js",
        "--x",
        "$HOME",
    )
    for line, said in (("", "is empty"), ("  ", "is empty"), ("node 'x", "cannot be parsed")):
        with pytest.raises(ConfigError, match=said):
            parse_command(line)


@pytest.mark.parametrize(
    ("printed", "result"),
    [
        (b"", ""),
        (b"  just text \n", "just text"),
        (b'{"a": 1}', {"a": 1}),
        (b'{\n  "a": 1\n}\n', {"a": 1}),
        (b"42\n", 42),
        (b"null", None),
        (b'"quoted"', "quoted"),
        (b'working...\n{"a": [1]}\n', {"a": [1]}),
        (b"working...\n[1, 2]\n\n", [1, 2]),
        (b"the answer is\n42", "the answer is\n42"),
        (b"{not json}", "{not json}"),
        (b"NaN", "NaN"),
        (b"\xff{}", "\ufffd{}"),
        (b"[" * 50_000, "[" * 50_000),
        (
            b'{"level": "info"}\nThinking\xe2\x80\xa6\n{\n  "a": {\n    "b": 1\n  }\n}\n',
            {"a": {"b": 1}},
        ),
        (b"[info] start\n[\n1,\n2\n]", [1, 2]),
        (b"[1] a source\n[2] another", "[1] a source\n[2] another"),
        (b"Plan -\rPlan |\rPlan: tea\nDone.\r\nWell.\r", "Plan: tea\nDone.\r\nWell."),
        (b"\x1b[1;32mBot:\x1b[0m Hi\x1b[K \x1b]8;;http://a\x07link\x1b]8;;\x1b\\", "Bot: Hi link"),
    ],
)
def test_what_is_printed_is_read_as_the_result(printed: bytes, result: object) -> None:
    assert result_of(printed) == result


@pytest.mark.parametrize(
    ("printed", "result"),
    [
        (b"loading\nYou: \nIt is on its way.\n\n", "It is on its way."),
        (b'log\n{"a": 1}\n', {"a": 1}),
        (b"", ""),
    ],
)
def test_of_a_chat_the_last_line_is_the_result(printed: bytes, result: object) -> None:
    assert last_line(printed) == result


def _claim(id: str = "a:b.c_d-e", token: str = "") -> Claim:
    rollout = Rollout(id=id, queue="q", candidate_id="", task_id="t", input=1)
    return Claim(rollout, 2, 1e12, token)


def test_telemetry_of_the_program_joins_the_attempts_trace() -> None:
    given = trace_variables(
        {"OTEL_RESOURCE_ATTRIBUTES": "service.name=x"}, "http://s", _claim(token="ra_1")
    )
    assert given["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://s"
    assert given["OTEL_EXPORTER_OTLP_HEADERS"] == "authorization=Bearer%20ra_1"
    assert given["OTEL_RESOURCE_ATTRIBUTES"] == (
        "service.name=x,ratchet.rollout.id=a%3Ab.c_d-e,ratchet.attempt=2"
    )
    assert given["OTEL_METRICS_EXPORTER"] == given["OTEL_LOGS_EXPORTER"] == "none"
    assert "OTEL_EXPORTER_OTLP_HEADERS" not in trace_variables({}, "http://s", _claim())


@pytest.mark.parametrize(
    "variable", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]
)
def test_telemetry_that_goes_elsewhere_is_left_to(variable: str) -> None:
    given = trace_variables({variable: "http://mine"}, "http://s", _claim(token="ra_1"))
    assert given.keys() == {"TRACEPARENT"}


def test_a_command_whose_input_is_a_file_needs_copies_of_the_project(tmp_path: Path) -> None:
    executor = CommandExecutor(
        [sys.executable, "-c", ""],
        folder=tmp_path,
        state=tmp_path,
        slots=1,
        timeout_s=1,
        input="file:question.txt",
    )
    with pytest.raises(AgentError, match=r"in which question\.txt holds its input"):
        asyncio.run(executor.start())
