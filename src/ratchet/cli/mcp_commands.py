"""Runs the commands behind the tools of `ratchet mcp`, and follows the long ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context

from ratchet.cli.mcp_answers import ToolAnswer, answer
from ratchet.cli.mcp_jobs import Job
from ratchet.server.command_process import CommandProcess, OnLine
from ratchet.types import InputError, RatchetError

Call = Context[Any, Any]

_NO_ANSWER = "The command ended without an answer."


class CommandFailed(RatchetError):
    """A command failed; what the agent's code raised or printed may say why."""

    def __init__(self, message: str, printed: str = "") -> None:
        super().__init__(message)
        self.printed = printed


class ToolCommands:
    """Commands of the projects in a folder.

    Args:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    async def start(self, ctx: Call, job: Job, arguments: list[str], wait_s: float) -> ToolAnswer:
        """Start a job, and wait a while for its end."""
        await anyio.to_thread.run_sync(job.start, [arguments[0], "--json", *arguments[1:]])
        return await self.wait(ctx, job, wait_s, "", 0)

    async def wait(self, ctx: Call, job: Job, wait_s: float, part: str, offset: int) -> ToolAnswer:
        """A job's state, once it has ended or the time is up."""
        if not job.exists:
            raise InputError(
                f"No {job.noun} was started in this project.", hint=f"Call {job.name}."
            )
        await job.wait(wait_s, _teller(ctx))
        state = state_of(job)
        if state and state["state"] == "failed":
            raise CommandFailed(job.told.own_words or _NO_ANSWER, job.told.quoted)
        problem, quoted = _problem(job)
        return answer(state, part=part, offset=offset, problem=problem, printed=quoted)

    async def cancel(self, job: Job) -> ToolAnswer:
        """Stop a job, which does not count as a failure."""
        if not job.exists:
            raise InputError(f"No {job.noun} was started in this project.")
        await job.stop()
        problem, quoted = _problem(job)
        return answer(state_of(job), problem=problem, printed=quoted)

    async def ask(
        self,
        ctx: Call,
        arguments: list[str],
        part: str = "",
        offset: int = 0,
        *,
        project: Path | None = None,
    ) -> ToolAnswer:
        """The answer of a command, which runs in the project's folder if there is a project."""
        data, problem, printed = await self.run(ctx, arguments, project)
        return answer(data, part=part, offset=offset, problem=problem, printed=printed)

    async def run(
        self, ctx: Call, arguments: list[str], project: Path | None = None
    ) -> tuple[Any, str, str]:
        """A command's answer, its error, and what it printed.

        Raises:
            CommandFailed: It failed without a result.
        """
        words = [arguments[0], "--json", *arguments[1:]]
        process = CommandProcess(project or self._root, words)
        await process.start()
        try:
            await process.wait(None, _teller(ctx))
        finally:
            with anyio.CancelScope(shield=True):
                await process.stop()
        report = process.told
        texts = [report.quoted]
        if project or not report.answered:
            texts.append(process.printed)
        printed = "\n".join(text for text in texts if text)
        if not report.answered:
            raise CommandFailed(report.own_words or process.ended, printed)
        return report.answer, report.own_words, printed


def state_of(job: Job) -> dict[str, Any] | None:
    """A job's state; None if none was ever started."""
    running = job.running  # before what it told is read, so that no end is missed
    job.refresh()
    report = job.told
    if not job.exists:
        return None
    if running:
        progress = list(report.lines)[-8:]
        return {"state": "running", "progress": progress, "next": f"{job.name}_status"}
    if report.answered:
        return {"state": "ended", "outcome": report.answer}
    if report.interrupted:
        saved = (
            "Nothing was written. To start over, make the same call again."
            if job.name == "wire"
            else "Finished work is saved. To continue, make the same call again."
        )
        return {"state": "cancelled", "message": saved}
    message = report.own_words or _NO_ANSWER
    return {"state": "failed", "message": message, "said": report.quoted}


def _problem(job: Job) -> tuple[str, str]:
    """The problem of a job that nevertheless gave an answer, and what it quotes."""
    return (job.told.own_words, job.told.quoted) if job.told.answered else ("", "")


def _teller(ctx: Call) -> OnLine:
    async def tell(number: int, line: str) -> None:
        await ctx.report_progress(number, None, line)

    return tell
