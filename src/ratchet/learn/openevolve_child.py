"""The `openevolve` process: runs the library and queries its parent for replies and scores.

Started by file, so that it imports nothing of Ratchet. It sends prompts and candidates' texts to
the lab over a Unix socket and receives replies and scores: no candidate runs here, and there are no
API keys or endpoints. All randomness derives from the seed: `uuid4`, `random` and the iteration
order of sets (by PYTHONHASHSEED, which the parent sets), so a resumed run makes the same requests
and is answered from the journal.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import sys
import threading
import uuid
from importlib import import_module
from typing import Any

SOCKET, SEED, DRIVER = "RATCHET_ENGINE_SOCKET", "RATCHET_ENGINE_SEED", "RATCHET_ENGINE_DRIVER"

EVALUATOR = """
import importlib.util
import sys

_spec = importlib.util.spec_from_file_location("ratchet_engine", {path!r})
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)


def evaluate(path):
    with open(path, encoding="utf-8") as file:
        return _module.evaluated(file.read())
"""
"""The evaluator's file: sends the candidate's text to the lab, and never runs it."""


def call(message: dict[str, Any]) -> dict[str, Any]:
    """Send a request to the parent; exits if it is gone."""
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(os.environ[SOCKET])
            line.sendall(json.dumps(message).encode() + b"\n")
            with line.makefile("rb") as answers:
                answer = answers.readline()
        except OSError:
            answer = b""
    if not answer:
        os._exit(3)
    found: dict[str, Any] = json.loads(answer)
    return found


def evaluated(text: str) -> Any:
    """The lab's evaluation of a candidate, in the package's form."""
    found = call({"kind": "evaluate", "text": text})
    made: Any = import_module("openevolve.evaluation_result")
    return made.EvaluationResult(metrics=found["metrics"], artifacts=found["artifacts"])


class ParentCoach:
    """The package's language-model interface, answered by the lab's coach."""

    def __init__(self, config: Any) -> None:
        self.model = config.name
        self.system_message = config.system_message

    async def generate(self, prompt: str, **_: Any) -> str:
        return await self.generate_with_context(
            self.system_message, [{"role": "user", "content": prompt}]
        )

    async def generate_with_context(
        self, system_message: str, messages: list[dict[str, str]], **_: Any
    ) -> str:
        asked = {"kind": "ask", "system": system_message, "messages": messages}
        found = await asyncio.to_thread(call, asked)
        if found["problem"]:
            raise RuntimeError(found["problem"])
        return str(found["text"])


def client(config: Any) -> ParentCoach:
    """Factory that the package calls in each of its processes."""
    if os.environ[DRIVER] != str(os.getpid()):
        seeded("worker")
    return ParentCoach(config)


_seeded = 0


def seeded(name: str) -> None:
    """Seed all randomness of this process, once."""
    global _seeded
    if _seeded == os.getpid():
        return
    _seeded = os.getpid()
    rng = random.Random(f"{os.environ[SEED]}/{name}")  # noqa: S311
    uuid.uuid4 = lambda: uuid.UUID(int=rng.getrandbits(128), version=4)
    random.seed(rng.getrandbits(64))


def main(folder: str) -> None:
    """Run the package on a job folder.

    Args:
        folder: Contains `job.json`, with `program` (the file of the text to improve) and `config`.
    """
    os.environ[DRIVER] = str(os.getpid())
    seeded("driver")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    package: Any = import_module("openevolve")
    settings: Any = import_module("openevolve.config")
    with open(os.path.join(folder, "job.json"), encoding="utf-8") as file:
        job = json.load(file)
    evaluator = os.path.join(folder, "evaluator.py")
    with open(evaluator, "w", encoding="utf-8") as file:
        file.write(EVALUATOR.format(path=os.path.abspath(__file__)))
    config = settings.Config.from_dict(job["config"])
    for models in (config.llm.models, config.llm.evaluator_models):
        models[:] = [settings.LLMModelConfig(name="coach", init_client=client)]
    config.llm.update_model_params({"system_message": config.prompt.system_message})
    engine = package.OpenEvolve(
        os.path.join(folder, job["program"]),
        evaluator,
        config,
        output_dir=os.path.join(folder, "out"),
    )
    asyncio.run(engine.run(iterations=config.max_iterations))


def _end_with_parent() -> None:
    """Exit this process and its workers when the parent is gone."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(os.environ[SOCKET])
        line.sendall(b'{"kind": "watch"}\n')
        line.recv(1)
    os.killpg(os.getpgid(0), 9)


if __name__ == "__main__":
    main(sys.argv[1])
