"""Runs a framework's agents against the simulator, and looks at what they left in a local store."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from ratchet.store.local_agents import open_with_agents
from ratchet.types import Span
from tests.frameworks.model_simulator import ANSWERING, ASKING, ModelSimulator
from tests.frameworks.table import Framework
from tests.frameworks.tree import ANSWER, Check, in_one_trace, look

AGENTS = Path(__file__).parent / "agents"
PATIENCE_S = 120.0

# What else they would send where, or ask of whom.
_QUIET = {
    "OPENAI_API_KEY": "sk-simulated",
    "ANTHROPIC_API_KEY": "simulated",
    "OPENAI_CHAT_MODEL_ID": "gpt-4o-mini",
    "OPENAI_AGENTS_DISABLE_TRACING": "",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "HF_HUB_OFFLINE": "1",
}
_FOREIGN = ("OTEL_", "RATCHET_", "OPENAI_", "ANTHROPIC_", "LANGCHAIN_", "LANGSMITH_")


_EARLY = (
    "import runpy, sys, ratchet; ratchet.init(); runpy.run_path(sys.argv[1], run_name='__main__')"
)
"""Runs an agent whose libraries are imported after `init`, as its own later call does nothing."""

_making = threading.Lock()  # Alembic makes one database at a time


class Outcome(NamedTuple):
    """What came of one framework."""

    framework: Framework
    version: str
    seconds: float
    missing: dict[str, str]
    """What is missing, by column of the matrix."""
    failure: str = ""
    """Why there is nothing to look at; empty when there is."""

    @property
    def passed(self) -> bool:
        """Whether everything is there."""
        return not self.failure and not self.missing


def try_framework(framework: Framework, python: Path, *, both_orders: bool = True) -> Outcome:
    """Run its agents, one after another.

    Args:
        framework: Which.
        python: That of the environment it is installed in.
        both_orders: Whether the first of them runs once more, with `init` before its imports.
    """
    started = time.monotonic()
    missing: dict[str, str] = {}
    failures = []
    runs = [(agent, False) for agent in framework.agents]
    if both_orders:
        runs.append((framework.agents[0], True))
    for agent, early in runs:
        name = f"{agent}, init first" if early else agent
        try:
            check = _try_agent(agent, python, simulated=framework.simulated, early=early)
        except _Failed as failure:
            failures.append(f"{name}: {failure}")
            continue
        missing.update({column: f"{name}: {what}" for column, what in check.items() if what})
    version = version_of(framework, python)
    seconds = time.monotonic() - started
    return Outcome(framework, version, seconds, missing, "; ".join(failures))


def version_of(framework: Framework, python: Path) -> str:
    """Version of the framework that is installed in an environment, empty when it is not."""
    if not framework.shown:
        return ".".join(map(str, _run([str(python), "-V"]).split()[1:]))
    code = f"from importlib.metadata import version; print(version({framework.shown!r}))"
    return _run([str(python), "-c", code])


class _Failed(Exception):
    """An agent did not get to its end."""


def _try_agent(agent: str, python: Path, *, simulated: bool = True, early: bool = False) -> Check:
    with tempfile.TemporaryDirectory(prefix="ratchet-framework-") as folder, ModelSimulator() as on:
        spans = recorded(agent, python, Path(folder), on.url, early=early)
        check = look(spans, on.calls if simulated else [ASKING, ANSWERING])
        check["one trace"] = "" if in_one_trace(spans) else "several traces or roots"
        return check


def recorded(
    agent: str, python: Path, folder: Path, model_url: str, *, early: bool = False
) -> list[Span]:
    """Run an agent, and return the spans that it left.

    Args:
        agent: Its file in `agents/`.
        python: That of the environment its framework is installed in.
        folder: An empty folder.
        model_url: Where the simulator of its model is reached.
        early: Whether `init` runs before its imports.
    """
    store_url = f"sqlite:///{folder}/ratchet.db"
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)},
        **_QUIET,
        "OPENAI_BASE_URL": f"{model_url}/v1",
        "OPENAI_API_BASE": f"{model_url}/v1",
        "ANTHROPIC_BASE_URL": model_url,
        "RATCHET_STORE": store_url,
        "HOME": str(folder),
    }
    environment.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(
            [str(python), *(["-c", _EARLY] if early else []), str(AGENTS / f"{agent}.py")],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        raise _Failed(f"not done within {PATIENCE_S:.0f} s") from None
    if done.returncode:
        raise _Failed(f"exit {done.returncode}: {' '.join(done.stderr.splitlines()[-3:])}")
    if ANSWER not in done.stdout:
        raise _Failed(f"did not answer: {done.stdout[-200:]!r}")
    spans = _stored(store_url)
    if not spans:
        raise _Failed(f"left no spans: {' '.join(done.stderr.splitlines()[-3:])}")
    return spans


def _stored(store_url: str) -> list[Span]:
    with _making, open_with_agents(store_url) as store:
        traces, _ = store.traces.list(limit=100)
        return [span for trace in traces for span in store.spans.of_trace(trace.trace_id)]


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stdout.strip()
