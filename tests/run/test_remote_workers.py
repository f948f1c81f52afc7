"""Worker processes whose store is a server: what they see of it, and what they tell it alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.run.executing import in_turn
from tests.server.gateway.upstreams import StubUpstream
from tests.serving import RunningServer
from tests.waiting import until

from ratchet.run import WorkerExecutor
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from ratchet.types import Claim, Rollout
from ratchet.worker.agent import AgentSpec

Pool = Callable[..., WorkerExecutor]
WriteAgent = Callable[..., AgentSpec]
Claims = Callable[..., list[Claim]]

PARENT = """
import asyncio, json, os, sys
from pathlib import Path
import msgspec
import pytest
import ratchet
from ratchet.run import WorkerExecutor, Runner, RunnerWatcher
from ratchet.worker.agent import AgentSpec
from ratchet.run import RetryingTransport, ServerTransport

given = json.loads(sys.argv[1])

async def main():
    key = os.environ["RATCHET_KEY"]
    async with ratchet.AsyncClient(given["url"]) as client:
        executor = WorkerExecutor(msgspec.convert(given["agent"], AgentSpec),
                                   store_url=given["url"], store_key=key,
                                   state=Path(given["state"]), slots=2,
                                   timeout_s=60, memory_bytes=2**31)
        line = RetryingTransport(ServerTransport(client), RunnerWatcher())
        async with Runner(line, "agent", executor) as runner:
            await runner.serve(asyncio.Event())

asyncio.run(main())
"""

AGENT = """
    import os
    from pathlib import Path
    HERE = Path(__file__).parent

    def run(x):
        with open(HERE / "started", "a") as file:
            file.write(x)
        with open(HERE / "gate", "rb", buffering=0) as gate:
            gate.read(1)
        return x
"""


def test_workers_whose_runner_is_killed_report_to_the_server_themselves(
    write_agent: WriteAgent,
    serving: Callable[..., RunningServer],
    sqlite_url: str,
    tmp_path: Path,
) -> None:
    with Store.open(sqlite_url) as store:
        _, key = store.keys.create("runner", ("runner",), time.time())
    server = serving(sqlite_url, ServeSettings(host="0.0.0.0", port=0))
    spec = write_agent(AGENT)
    started = Path(spec.root) / "started"
    os.mkfifo(Path(spec.root) / "gate")
    # Read and write, so that neither end waits for the other to open.
    gate = os.open(Path(spec.root) / "gate", os.O_RDWR)
    wanted = [
        Rollout(id=id, queue="agent", candidate_id="", task_id=id, input=id) for id in ("a", "b")
    ]
    server.app.services.store.rollouts.create(wanted, time.time())
    given = {
        "url": server.url.replace("0.0.0.0", "127.0.0.1"),
        "agent": spec,
        "state": str(tmp_path / "state"),
    }
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, msgspec.json.encode(given)],
        env={**os.environ, "RATCHET_KEY": key},
        start_new_session=True,
    )
    try:
        until(lambda: started.exists() and len(started.read_text()) == 2, "both should start")
        parent.kill()
        parent.wait()
        os.write(gate, b"..")
        rollouts = server.app.services.store.rollouts
        until(lambda: rollouts.counts() == {"succeeded": 2}, "the workers should report")
    finally:
        parent.kill()
        parent.wait()
        os.close(gate)
    assert started.read_text() in ("ab", "ba"), "nothing was run twice"


def test_an_agent_does_not_see_the_key_of_its_runner(
    write_agent: WriteAgent, pool: Pool, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_agent("""
        import os
        from pathlib import Path
        imported = dict(os.environ)

        def run(x):
            raw = Path("/proc/self/environ")
            return [imported, dict(os.environ), raw.read_text() if raw.exists() else ""]
    """)
    monkeypatch.setenv("RATCHET_KEY", "rk_hush")
    (outcome,) = in_turn(pool(spec, slots=1, store_key="rk_hush"), claims("x"))
    assert outcome.status == "succeeded"
    assert "rk_hush" not in str(outcome.output)


def test_each_attempt_calls_the_gateway_in_its_own_name(
    write_agent: WriteAgent, pool: Pool, claims: Claims
) -> None:
    spec = write_agent("""
        import os
        NAMES = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")

        def run(x):
            return [os.environ[name] for name in NAMES]
    """)
    first, second = (
        Claim(claim.rollout, 4, 1e12, f"ra_{claim.rollout.id}") for claim in claims(1, 2)
    )
    outcomes = in_turn(pool(spec, slots=1, gateway="http://server"), [first, second])
    for number, outcome in enumerate(outcomes):
        gateway = f"http://server/gateway/r{number}@4"
        token = f"ra_r{number}"
        expected = [f"{gateway}/openai/v1", token, f"{gateway}/anthropic", token]
        assert outcome.output == expected


def test_a_client_made_while_the_agent_was_imported_calls_in_each_attempts_name(
    write_agent: WriteAgent, pool: Pool, claims: Claims
) -> None:
    spec = write_agent("""
        import os, urllib.request
        OPENAI, ANTHROPIC = os.environ["OPENAI_BASE_URL"], os.environ["ANTHROPIC_BASE_URL"]

        def run(x):
            for url in (f"{OPENAI}/models", f"{ANTHROPIC}/v1/messages?beta=true"):
                urllib.request.urlopen(url).read()
    """)
    gateway = StubUpstream()
    gateway.answers({})
    try:
        server = f"http://127.0.0.1:{gateway.port}"
        outcomes = in_turn(pool(spec, slots=2, gateway=server), claims(*range(6)))
    finally:
        gateway.close()
    assert [outcome.error for outcome in outcomes] == [""] * 6
    assert sorted(seen.target for seen in gateway.seen) == sorted(
        f"/gateway/r{number}@1/{path}"
        for number in range(6)
        for path in ("openai/v1/models", "anthropic/v1/messages?beta=true")
    )


def test_a_gateway_is_refused_where_attempts_share_an_environment(
    write_agent: WriteAgent, pool: Pool
) -> None:
    with pytest.raises(ValueError, match="as many workers as slots"):
        pool(write_agent("def run(x): return x"), slots=2, workers=1, gateway="http://server")


def test_what_a_child_process_does_without_a_candidate_is_known_to_be_a_rollouts(
    write_agent: WriteAgent, pool: Pool, claims: Claims
) -> None:
    spec = write_agent("""
        import subprocess, sys
        CHILD = "import ratchet; ratchet.tool(side_effects=True)(lambda: None)()"

        def run(x):
            subprocess.run([sys.executable, "-c", CHILD], capture_output=True)
    """)
    (outcome,) = in_turn(pool(spec, slots=1), claims("x", candidate_id=""))
    assert outcome.status == "inconclusive", "its tool must not act"
