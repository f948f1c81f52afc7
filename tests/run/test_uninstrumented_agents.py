"""An agent whose source knows nothing of Ratchet: its model calls are in its rollouts' traces."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.gateway.upstreams import StubUpstream

AGENT = """
import openai

def answer(question):
    client = openai.OpenAI(base_url="{url}", api_key="none", max_retries=0)
    said = client.chat.completions.create(
        model="gpt-4.1-mini", messages=[{{"role": "user", "content": question}}]
    )
    return said.choices[0].message.content
"""

SCRIPT = """
import asyncio, json, sys
from ratchet.run import WorkerExecutor, Runner
from ratchet.worker.agent import AgentSpec, load_agent
from ratchet.worker.inprocess import AsyncExecutor
from ratchet.store import Store
from ratchet.types import Candidate, Rollout, Task

root, kind = sys.argv[1:]
spec = AgentSpec(entry="plain_agent:answer", root=root)
url = f"sqlite:///{root}/store.db"

async def main():
    with Store.open(url) as store:
        if kind == "async":
            executor = AsyncExecutor(load_agent(spec), slots=1, timeout_s=30)
        else:
            from pathlib import Path
            executor = WorkerExecutor(
                spec, store_url=url, state=Path(root), slots=1, timeout_s=30, memory_bytes=1 << 30
            )
        candidate = Candidate.of({})
        rollout = Rollout.of(
            Task("t", "Which room?"), candidate.id, scope=["s"], seed_parts=[0], queue="q",
            purpose="test", max_attempts=1,
        )
        async with Runner(store, "q", executor) as runner:
            ended = (await runner.run([rollout], [candidate]))[rollout.id]
        spans = store.spans.of(rollout.id)
        print(json.dumps({
            "status": ended.status, "error": ended.error, "output": ended.output,
            "cost": ended.cost_usd,
            "messages": [s.attributes.get("gen_ai.input.messages") for s in spans],
            "models": [s.attributes.get("gen_ai.request.model") for s in spans],
        }))

asyncio.run(main())
"""

ANSWER = {
    "model": "gpt-4.1-mini",
    "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "B216"}}],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
}


@pytest.mark.parametrize("kind", ["async", "process"])
def test_its_model_calls_are_in_the_trace_and_counted_in_dollars(kind: str, tmp_path: Path) -> None:
    upstream = StubUpstream()
    upstream.answers(ANSWER)
    (tmp_path / "plain_agent.py").write_text(AGENT.format(url=f"{upstream.url}/v1"))
    try:
        # A process of its own: what is instrumented stays so.
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path), kind],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        upstream.close()
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["status"], told["output"]) == ("succeeded", "B216"), told
    assert "gpt-4.1-mini" in told["models"]
    assert any("Which room?" in (messages or "") for messages in told["messages"])
    assert told["cost"] == pytest.approx(1000 * 0.4e-6 + 100 * 1.6e-6)
