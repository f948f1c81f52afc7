"""OpenEvolve: runs the `openevolve` package on the lab's rollouts, coach and journal.

Evolution of one text with islands and a MAP-Elites archive, after AlphaEvolve (Novikov et al.
2025). The library decides which program is mutated and how the coach is prompted. It configures
logging, signals and random seeds process-wide, so it runs in a process of its own, without API keys
or endpoints: prompts and candidates are exchanged over a Unix socket.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from ratchet.learn import openevolve_child
from ratchet.learn.algorithm import SPENT, Finding, SearchEnd
from ratchet.learn.budget import BudgetExhausted
from ratchet.learn.evidence import transcript
from ratchet.learn.lab import Lab
from ratchet.learn.texts import with_text
from ratchet.learn.wording import counted
from ratchet.learn.work import Evaluation, Proposal, mean, require_scores, texts_of
from ratchet.llm import Message, Reply
from ratchet.types import Candidate, Code, ConfigError, InputError, RatchetError, Task, content_hash

MOST_LINE = 16 * 1024 * 1024
"""Maximum bytes of a message from the library's process."""

MOST_FOLDER = 70
"""Maximum characters of the path of the folder for temporary files."""

SHOWN = 3
"""Number of a candidate's worst train rollouts shown to the coach."""

FRUITLESS = 12
"""Number of answers of the coach in a row without a new candidate after which the search ends."""

FOREVER_S = 10 * 24 * 3600
"""The library's own timeouts, effectively disabled: the lab sets the limits."""


class OpenEvolve:
    """Evolution of one prompt or function by the `openevolve` package.

    Args:
        model: The coach's model; that of [coach] by default.
        base_url: The coach's endpoint; that of [coach] by default.
        resource: Name of the text to improve; required if there are several.
        max_iterations: Maximum number of mutations.
        tasks_per_evaluation: Number of train tasks per evaluation; all by default.
        finalists: Number of the best on train that are compared on val.
        diff_based_evolution: Request search/replace blocks instead of the whole text.
        num_islands: Number of islands.
        population_size: Number of programs in the population.
        archive_size: Number of elite programs in the archive.
        migration_interval: Generations between migrations.
        num_top_programs: Number of best programs shown to the coach.
        num_diverse_programs: Number of other programs shown to the coach.
        system_message: System message of the coach's prompts; the package's own by default.

    Raises:
        ConfigError: An option has an invalid value.
    """

    name = "openevolve"
    needs_coach = True

    def __init__(
        self,
        *,
        model: str | None = None,
        base_url: str | None = None,
        resource: str | None = None,
        max_iterations: int = 200,
        tasks_per_evaluation: int | None = None,
        finalists: int = 3,
        diff_based_evolution: bool = True,
        num_islands: int = 3,
        population_size: int = 100,
        archive_size: int = 20,
        migration_interval: int = 20,
        num_top_programs: int = 3,
        num_diverse_programs: int = 2,
        system_message: str | None = None,
    ) -> None:
        numbers = {
            "max_iterations": max_iterations,
            "tasks_per_evaluation": 1 if tasks_per_evaluation is None else tasks_per_evaluation,
            "finalists": finalists,
            "num_islands": num_islands,
            "population_size": population_size,
            "archive_size": archive_size,
            "migration_interval": migration_interval,
            "num_top_programs": num_top_programs,
            "num_diverse_programs": num_diverse_programs,
        }
        for name, number in numbers.items():
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                raise ConfigError(
                    f"openevolve's {name} = {number!r} is not a whole number above 0."
                )
        self.coach_options = {"model": model, "base_url": base_url}
        self.resource = resource
        self.tasks = tasks_per_evaluation
        self.finalists = finalists
        prompt: dict[str, Any] = {
            "num_top_programs": num_top_programs,
            "num_diverse_programs": num_diverse_programs,
        }
        if system_message is not None:
            prompt["system_message"] = system_message
        self.config: dict[str, Any] = {
            "max_iterations": max_iterations,
            "diff_based_evolution": bool(diff_based_evolution),
            "checkpoint_interval": 10**9,
            "log_level": "ERROR",
            "max_code_length": 1_000_000,
            "prompt": prompt,
            "database": {
                "num_islands": num_islands,
                "population_size": population_size,
                "archive_size": archive_size,
                "migration_interval": migration_interval,
            },
            "evaluator": {
                "timeout": FOREVER_S,
                "max_retries": 0,
                "cascade_evaluation": False,
                # Sequential, so that the order of prompts follows from the seed alone.
                "parallel_evaluations": 1,
            },
        }

    async def learn(self, lab: Lab) -> Finding:
        """Search until the budget or the iterations are spent, and select on val.

        Raises:
            ConfigError: The package is not installed.
            InputError: There is no text to improve, several and none is named, or there are no
                tasks.
            BudgetExhausted: The budget does not cover one round.
            CoachUnavailable: No coach is configured, or it cannot be reached.
            RatchetError: The library failed.
        """
        if find_spec("openevolve") is None:
            raise ConfigError(
                "The algorithm openevolve needs the package openevolve, which is not installed.",
                hint="pip install 'agent-ratchet[openevolve]'",
            )
        for split, tasks in (("train", lab.train), ("val", lab.val)):
            if not tasks:
                raise InputError(f"There are no {split} tasks.", hint="Change split under [tasks].")
        name, text = self._text(lab)
        tried_on = list(lab.train)
        if self.tasks is not None and self.tasks < len(tried_on):
            tried_on = lab.rng.sample(tried_on, self.tasks)
        reserve = len(lab.val) * (1 + self.finalists)
        _check_budget(lab, 2 * len(tried_on) + reserve)
        before = await lab.evaluate(lab.baseline, lab.val)
        require_scores(before, "val")
        baseline_val = mean(before)
        search = _Search(lab, name, tried_on, reserve - len(lab.val))
        end = await search.run(text, {**self.config, "random_seed": lab.seed % 2**31})
        best, best_val = await search.choose(self.finalists, baseline_val)
        return Finding(
            best=best,
            baseline_val=baseline_val,
            best_val=best_val,
            proposals=search.judged,
            sentence=f"{counted(search.judged, 'candidate')} of {name!r}; {end.why}.",
            ended=end.cause,
        )

    def _text(self, lab: Lab) -> tuple[str, str]:
        texts = texts_of(lab.targets)
        if self.resource is not None:
            if self.resource not in texts:
                raise InputError(
                    f"There is no text {self.resource!r} that openevolve could improve;"
                    f" there are {', '.join(texts) or 'none'}."
                )
            return self.resource, texts[self.resource]
        if not texts:
            raise InputError(
                "There is no text that openevolve could improve.",
                hint="Declare one: ratchet.prompt(…), or @ratchet.evolve on a function.",
            )
        if len(texts) > 1:
            raise InputError(
                f"openevolve improves one text, and there are {', '.join(texts)}.",
                hint='Name it under [improve.options]: resource = "…".',
            )
        return next(iter(texts.items()))


class _Search:
    """Serves the library's process, and records its proposals."""

    def __init__(self, lab: Lab, name: str, tasks: Sequence[Task], reserve: int) -> None:
        self._lab = lab
        self._name = name
        self._tasks = tasks
        self._reserve = reserve
        self._asked: Counter[str] = Counter()
        self._tried: dict[str, tuple[float, int, Candidate]] = {}
        self._reply: Reply | None = None
        self._best = 0.0
        self._fruitless = 0
        self._serving: set[asyncio.Task[Any]] = set()
        self._ended: asyncio.Future[SearchEnd] = asyncio.get_running_loop().create_future()
        self.judged = 0

    async def run(self, text: str, config: dict[str, Any]) -> SearchEnd:
        """Run the library's search; returns how it ended."""
        # A Unix socket's path is limited to about a hundred characters.
        near = None if len(tempfile.gettempdir()) < MOST_FOLDER else "/tmp"  # noqa: S108
        folder = Path(tempfile.mkdtemp(prefix="ratchet-engine-", dir=near))
        try:
            return await self._run_in(folder, text, config)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _run_in(self, folder: Path, text: str, config: dict[str, Any]) -> SearchEnd:
        code = isinstance(self._lab.targets[self._name], Code)
        program = "program.py" if code else "program.txt"
        config = {**config, "language": "python" if code else "text"}
        (folder / program).write_text(text, encoding="utf-8")
        (folder / "job.json").write_text(json.dumps({"program": program, "config": config}))
        path = str(folder / "line")
        server = await asyncio.start_unix_server(self._serve, path, limit=MOST_LINE)
        with (folder / "printed").open("wb") as printed:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                openevolve_child.__file__,
                str(folder),
                cwd=folder,
                env=_environment(path, self._lab.seed, folder),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )
        watching = asyncio.ensure_future(process.wait())
        try:
            both: set[asyncio.Future[Any]] = {watching, self._ended}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if self._ended.done():
                return self._ended.result()
            if process.returncode:
                output = (folder / "printed").read_text(errors="replace").strip().splitlines()
                raise RatchetError(
                    f"openevolve ended with an error ({process.returncode}):"
                    f" {output[-1][:300] if output else 'it printed nothing'}"
                )
            return SearchEnd("limit", f"all {config['max_iterations']} iterations were made")
        finally:
            server.close()
            for task in self._serving:
                task.cancel()
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            await asyncio.shield(watching)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            message = msgspec.json.decode(await reader.readline())
            if message["kind"] == "watch":
                await reader.read()  # until that process exits
                return
            answer = await (
                self._evaluate(message) if message["kind"] == "evaluate" else self._ask(message)
            )
            writer.write(msgspec.json.encode(answer) + b"\n")
            await writer.drain()
        except (ConnectionError, ValueError):
            pass  # it was stopped
        except BudgetExhausted:
            self._end(SPENT)
        except asyncio.CancelledError:
            pass  # raised by `_run_in` as well; asyncio's streams would print it
        except BaseException as error:
            if not self._ended.done():
                self._ended.set_exception(error)
        finally:
            self._serving.discard(task)
            writer.close()

    async def _ask(self, message: dict[str, Any]) -> dict[str, str]:
        messages = [
            Message(role="system", content=message["system"] or ""),
            *(Message(role=m["role"], content=m["content"]) for m in message["messages"]),
        ]
        about = content_hash([[m.role, m.content] for m in messages])
        step = f"openevolve/{self._asked[about]}"
        self._asked[about] += 1
        reply = await self._lab.coach(messages, step=step)
        if reply.problem:
            self._lab.unusable(f"{step}/{about}", reply.problem)
        self._settle(survived=False)
        self._reply = reply
        self._fruitless += 1
        if self._fruitless > FRUITLESS:
            why = f"{FRUITLESS} answers of the coach in a row led to nothing new to try"
            self._end(SearchEnd("idle", why))
        return {"text": reply.text, "problem": reply.problem}

    async def _evaluate(self, message: dict[str, Any]) -> dict[str, Any]:
        text = message["text"]
        try:
            resource = with_text(self._lab.targets[self._name], text)
            candidate = self._candidate({self._name: resource})
        except InputError as error:
            self._lab.unusable(f"openevolve/{content_hash(text)}", error.message)
            return _nothing(error.message)
        known = self._tried.get(candidate.id)
        if known is None:
            # The library has no first part: each evaluation runs all tasks.
            problem = await self._lab.check(candidate) or await self._lab.test(candidate)
            if problem:
                return _nothing(problem)
            if candidate.id != self._lab.baseline.id:
                self._lab.usable()
            if not self._may_go_on(candidate):
                raise BudgetExhausted("The rest of the budget is for the finalists.")
        evaluations = await self._lab.evaluate(candidate, self._tasks)
        value = mean(evaluations)
        if known is None:
            self._judge(candidate, value)
        shown = sorted(evaluations, key=lambda e: e.worth)[:SHOWN]
        return {"metrics": {"combined_score": value}, "artifacts": await self._shown(shown)}

    def _candidate(self, resources: dict[str, Any]) -> Candidate:
        if resources[self._name] == self._lab.targets[self._name]:
            return self._lab.baseline
        return self._lab.propose(
            resources,
            algorithm=OpenEvolve.name,
            reason=f"A mutation of {self._name} that the coach wrote.",
        )

    def _may_go_on(self, candidate: Candidate) -> bool:
        if not self._lab.may_continue(f"openevolve/{candidate.id}"):
            return False
        limit = self._lab.budget.rollouts
        if limit is None:
            return True
        return limit - self._lab.spent.rollouts >= len(self._tasks) + self._reserve

    def _judge(self, candidate: Candidate, value: float) -> None:
        better = not self._tried or value > self._best
        first = not self._tried
        self._best = max(self._best, value)
        self._tried[candidate.id] = (value, len(self._tried), candidate)
        self._fruitless = 0
        self._settle(survived=better)
        accepted = "" if first or not better else "It is the best on train so far."
        number, self.judged = self.judged, self.judged + 1
        self._lab.judged(
            Proposal(
                number=number,
                candidate_id=candidate.id,
                value=value,
                tasks=len(self._tasks),
                best=self._best,
                rollouts=self._lab.spent.rollouts,
                accepted=accepted,
            )
        )

    def _settle(self, survived: bool) -> None:
        """Credit or discredit the coach's last answer."""
        reply, self._reply = self._reply, None
        if reply is not None:
            self._lab.credit(reply, survived)

    def _end(self, end: SearchEnd) -> None:
        if not self._ended.done():
            self._ended.set_result(end)

    async def _shown(self, evaluations: Sequence[Evaluation]) -> dict[str, str]:
        """Rollouts on train in the form shown to the coach."""
        shown: dict[str, str] = {}
        for number, evaluation in enumerate(evaluations, 1):
            if evaluation.worth >= 1.0:
                continue
            spans = await self._lab.spans(evaluation)
            shown[f"rollout_{number}"] = transcript(evaluation, spans, title=f"Rollout {number}")
        return shown

    async def choose(self, finalists: int, baseline_val: float) -> tuple[Candidate, float]:
        """The best on val among the best on train; the baseline if none beats it.

        Of those equal on val the best on train is chosen, if it beats the baseline there.
        """
        ranked = sorted(self._tried.values(), key=lambda entry: (-entry[0], entry[1]))
        best, best_val = self._lab.baseline, baseline_val
        best_train = self._tried[best.id][0] if best.id in self._tried else math.inf
        for train, _, candidate in ranked[:finalists]:
            try:
                value = mean(await self._lab.evaluate(candidate, self._lab.val))
            except BudgetExhausted:
                break
            if (value, train) > (best_val, best_train):
                best, best_val, best_train = candidate, value, train
        return best, best_val


def _environment(path: str, seed: int, folder: Path) -> dict[str, str]:
    """The environment of the library's process: no secrets, only the socket."""
    inherited = {
        name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ
    }
    return {
        **inherited,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        openevolve_child.SOCKET: path,
        openevolve_child.SEED: str(seed),
    }


def _nothing(problem: str) -> dict[str, Any]:
    """The result of an unusable candidate: no rollouts, and the fault for the coach."""
    return {"metrics": {"combined_score": 0.0}, "artifacts": {"problem": problem}}


def _check_budget(lab: Lab, least: int) -> None:
    left = None if lab.budget.rollouts is None else lab.budget.rollouts - lab.spent.rollouts
    if left is not None and left < least:
        raise BudgetExhausted(
            f"The budget of {left} rollouts does not cover one round of openevolve: {least},"
            " for the baseline and one candidate on train, and the finalists on val.",
            hint="Raise rollouts under [improve.budget], or set tasks_per_evaluation or finalists"
            " under [improve.options].",
        )
