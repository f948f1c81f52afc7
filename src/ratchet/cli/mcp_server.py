"""The tools of `ratchet mcp`: the functions of the commands, with typed inputs and outputs."""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio.to_thread
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from ratchet._version import __version__
from ratchet.cli.console import collecting
from ratchet.cli.mcp_answers import DATA_NOTE, ToolAnswer, answer
from ratchet.cli.mcp_processes import command_in, run_command
from ratchet.cli.mcp_skill import skill_text
from ratchet.observe.project_paths import folder_with_config
from ratchet.server.command_process import CommandProcess
from ratchet.types import InputError, RatchetError

INSTRUCTIONS = f"""Ratchet improves an existing LLM agent from its own use, and ships a change \
only if it is proved better on tasks that learning never saw.

In a repository that is not wired yet: look, recommend, wire (a dry run unless commit is true), \
check. In a wired project: run, traces, show, improve, explain, diff. Ask the person before commit \
or ship is set to true, and before tools with side effects are allowed. {DATA_NOTE}"""

PathIn = Annotated[str, Field(description="Folder, relative to where the server was started")]
Part = Annotated[str, Field(description="JSON Pointer to the part wanted, such as /prompts/0")]
Offset = Annotated[int, Field(ge=0, description="Items or characters of `part` to pass over")]
Wait = Annotated[float, Field(ge=0, le=600, description="Wait at most so many seconds for its end")]
ProjectIn = Annotated[str | None, Field(description="Project's folder, where there are several")]
EntryIn = Annotated[str | None, Field(description="What a task runs, as PATH:NAME")]
ToolsIn = Annotated[
    list[str] | None,
    Field(description="Tools with side effects that may act in rollouts; ask the person first"),
]

_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
_RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
_COMMITS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_TAKES_BACK = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


class Tools:
    """What the server offers.

    Args:
        root: The folder that it was started in; nothing outside is looked at or changed.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._improving: CommandProcess | None = None

    def register(self, server: MCPServer) -> None:
        """Add all tools to a server."""
        kinds: tuple[
            tuple[ToolAnnotations, tuple[Callable[..., Awaitable[ToolAnswer]], ...]], ...
        ] = (
            (_READS, (self.look, self.recommend, self.traces, self.show, self.explain)),
            (_READS, (self.diff, self.releases, self.doctor, self.improve_status)),
            (_COMMITS, (self.wire,)),
            (_TAKES_BACK, (self.undo,)),
            (_RUNS, (self.run, self.check, self.improve, self.improve_cancel)),
        )
        for hints, tools in kinds:
            for tool in tools:
                server.tool(annotations=hints)(_with_sentences(tool))

    async def close(self) -> None:
        """Interrupt what still runs; its finished work is saved."""
        if self._improving is not None:
            await self._improving.stop()

    async def look(self, path: PathIn = ".", part: Part = "", offset: Offset = 0) -> ToolAnswer:
        """Say what a repository holds: frameworks, entries, model calls, prompts, tools, side \
effects, tests, tracing, data and names of secrets, each with file and line. Reads only; runs and \
imports nothing, and opens no .env file."""
        return await self._command("init", "init", part, offset, path=self._in(path), look=True)

    async def recommend(
        self,
        path: PathIn = ".",
        project: ProjectIn = None,
        entry: EntryIn = None,
        allow_tools: ToolsIn = None,
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """Say in plain words what the agent is, what to improve first, how to bind each prompt, \
which data is there, what it costs and what is risky; with the questions that only a person can \
answer. Changes nothing."""
        whole = self._in(path)

        def work() -> Any:
            from ratchet.cli.init import advice_for

            return advice_for(whole, project, entry, tuple(allow_tools or ()))

        return answer(await _in_thread(work), part=part, offset=offset)

    async def wire(
        self,
        path: PathIn = ".",
        project: ProjectIn = None,
        entry: EntryIn = None,
        allow_tools: ToolsIn = None,
        workflow: Annotated[
            bool, Field(description="Add a CI job that runs ratchet verify")
        ] = False,
        branch: Annotated[str, Field(description="Name of the new branch")] = "ratchet/init",
        commit: Annotated[bool, Field(description="Make the commit; else a dry run")] = False,
        no_git: Annotated[
            bool, Field(description="Write the files without git, where there is no repository")
        ] = False,
        coach: Annotated[
            str | None, Field(description="Model that gives an opinion and drafts; costs money")
        ] = None,
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """Wire the agent into Ratchet. A dry run that gives the diff, unless commit is true: then \
one commit on a new branch, or with no_git the files alone. Nothing that exists is overwritten, \
and a second call adds only what is new."""
        whole = self._in(path)
        if commit and not no_git:
            self._owns_git(whole)
        return await self._command(
            "init",
            "init",
            part,
            offset,
            path=whole,
            dry_run=not commit,
            yes=True,
            project=project,
            entry=entry,
            allow_tool=allow_tools,
            workflow=workflow,
            branch=branch,
            no_git=no_git,
            coach=coach,
        )

    async def undo(
        self,
        path: PathIn = ".",
        commit: Annotated[
            bool, Field(description="Take it back; else only say what would be")
        ] = False,
        no_git: Annotated[bool, Field(description="As wire was called")] = False,
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """Take back what wire made, also after edits around it; what was edited is kept and \
named. Says what would be done, unless commit is true."""
        whole = self._in(path)
        if commit:
            if not no_git:
                self._owns_git(whole)
            return await self._command(
                "init", "init", part, offset, path=whole, undo=True, no_git=no_git
            )

        def work() -> Any:
            from ratchet.cli.init import undo_preview

            return undo_preview(whole)

        return answer(await _in_thread(work), part=part, offset=offset)

    async def check(self, ctx: Context[Any, Any], path: PathIn = ".") -> ToolAnswer:
        """Check a wired agent against a simulated model, in a copy without keys and with tools \
that act blocked: one connected trace, each prompt the same as before and changed when it should \
be, the project's tests as before."""
        data, problem = await run_command(self._in(path), ["init", "--check"], _teller(ctx))
        return answer(data, problem=problem)

    async def run(
        self,
        ctx: Context[Any, Any],
        input: Annotated[str | None, Field(description="Text, or JSON in a text")] = None,
        task: Annotated[str | None, Field(description="Id of a task of the task file")] = None,
        split: Literal["train", "val", "test", "all"] | None = None,
        limit: Annotated[int, Field(ge=1, le=200, description="Tasks, with split")] = 3,
        candidate: Annotated[str, Field(description="source, best, or an id's start")] = "source",
        path: PathIn = ".",
    ) -> ToolAnswer:
        """Run the agent on one input, one task, or some tasks of a split. Give exactly one of \
input, task and split. Tools with side effects are blocked. show gives a rollout's trace by its \
id."""
        folder = self._project(path)
        arguments = ["run", "--candidate", _plain(candidate)]
        if task is not None:
            arguments += ["--task", _plain(task)]
        if split is not None:
            arguments += ["--split", split, "--limit", str(limit)]
        if input is not None:
            arguments += ["--", input]
        data, problem = await run_command(folder, arguments, _teller(ctx))
        return answer(data, problem=problem)

    async def traces(
        self,
        agent: str | None = None,
        errors: Annotated[bool, Field(description="Only traces with errors")] = False,
        since: Annotated[str | None, Field(description="Such as 1h, 2d, or a date")] = None,
        feedback: Annotated[bool, Field(description="Only traces with feedback")] = False,
        rollouts: Annotated[bool, Field(description="Also traces of rollouts")] = False,
        sort: Literal["newest", "slowest", "costliest"] = "newest",
        limit: Annotated[int, Field(ge=1, le=200)] = 20,
        path: PathIn = ".",
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """List traces of the agent's live calls; with rollouts, also of what run and improve \
ran."""
        return await self._command(
            "traces",
            "traces",
            part,
            offset,
            agent=agent,
            errors=errors,
            since=since,
            feedback=feedback,
            rollouts=rollouts,
            sort=sort,
            limit=limit,
            min_duration=None,
            min_cost=None,
            folder=self._project(path),
        )

    async def show(
        self,
        id: Annotated[str, Field(description="The start is enough")],
        path: PathIn = ".",
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """Show a trace, conversation, rollout, run, candidate, experiment or release."""
        folder = self._project(path)
        return await self._command("show", "show", part, offset, identity=id, folder=folder)

    async def explain(
        self,
        id: Annotated[str | None, Field(description="By default the newest decision")] = None,
        path: PathIn = ".",
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """Explain a decision in plain words: why the verdict is what it is, and what would \
change it."""
        folder = self._project(path)
        return await self._command("explain", "explain", part, offset, identity=id, folder=folder)

    async def diff(
        self,
        before: Annotated[str, Field(description="source, best, or an id's start")] = "source",
        after: Annotated[str, Field(description="source, best, or an id's start")] = "best",
        path: PathIn = ".",
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """Compare two candidates; from source, with the patch of the files. Changes nothing."""
        arguments = ["diff", _plain(before), _plain(after)]
        data, problem = await run_command(self._project(path), arguments)
        return answer(data, part=part, offset=offset, problem=problem)

    async def releases(self, path: PathIn = ".", part: Part = "", offset: Offset = 0) -> ToolAnswer:
        """List releases, with their state in the repository and at the forge."""
        folder = self._project(path)
        return await self._command("releases", "releases", part, offset, folder=folder)

    async def doctor(self, path: PathIn = ".", part: Part = "", offset: Offset = 0) -> ToolAnswer:
        """Say what of the wiring and of ratchet.toml no longer fits the code, and the next step \
of each. Runs and writes nothing."""
        return await self._command("doctor", "doctor", part, offset, path=self._project(path))

    async def improve(
        self,
        ctx: Context[Any, Any],
        rollouts: Annotated[int | None, Field(ge=1, description="Lowers the budget")] = None,
        seconds: Annotated[float | None, Field(ge=1, description="Lowers the budget")] = None,
        seed: int | None = None,
        algorithm: str | None = None,
        ship: Annotated[bool, Field(description="Make the branch of a proved change")] = False,
        wait_s: Wait = 20.0,
        path: PathIn = ".",
    ) -> ToolAnswer:
        """Start learning a better candidate and proving it on held-out tasks; it runs on after \
this call, and improve_status waits for it. The budget is that of ratchet.toml; rollouts and \
seconds only lower it. Nothing is shipped unless ship is true. After a stop, the same call \
continues."""
        if self._improving is not None and self._improving.running:
            raise InputError(
                "An improvement is running.", hint="Wait with improve_status, or improve_cancel."
            )
        folder = self._project(path)
        if ship:
            self._owns_git(folder)
        arguments = ["improve", "--ship" if ship else "--no-ship"]
        arguments += await _in_thread(lambda: _lowered(folder, rollouts, seconds))
        if seed is not None:
            arguments += ["--seed", str(seed)]
        if algorithm is not None:
            arguments += ["--algorithm", _plain(algorithm)]
        self._improving = command_in(folder, arguments)
        await self._improving.start()
        return await self._state(ctx, wait_s)

    async def improve_status(self, ctx: Context[Any, Any], wait_s: Wait = 20.0) -> ToolAnswer:
        """Wait for the improvement that improve started, and give its state or outcome."""
        return await self._state(ctx, wait_s)

    async def improve_cancel(self, ctx: Context[Any, Any]) -> ToolAnswer:
        """Stop the improvement that improve started. Its finished work is saved; improve \
continues it."""
        if self._improving is None:
            raise _NOT_STARTED
        await self._improving.stop()
        return await self._state(ctx, 0)

    async def _state(self, ctx: Context[Any, Any], wait_s: float) -> ToolAnswer:
        process = self._improving
        if process is None:
            raise _NOT_STARTED
        if not await process.wait(wait_s, _teller(ctx)):
            said = process.newest[-8:]
            return answer({"state": "running", "progress": said, "next": "improve_status"})
        data, problem = process.result()
        return answer({"state": "ended", "outcome": data}, problem=problem)

    async def _command(
        self, module: str, name: str, part: str, offset: int, **arguments: Any
    ) -> ToolAnswer:
        """The JSON of a command, by its own function."""

        def work() -> tuple[Any, str]:
            from importlib import import_module

            command = getattr(import_module(f"ratchet.cli.{module}"), name)
            with collecting() as found:
                try:
                    command(**arguments, json=True)
                except RatchetError as error:
                    if not found:
                        raise
                    return found[-1], _sentence(error)
            return found[-1], ""

        data, problem = await _in_thread(work)
        return answer(data, part=part, offset=offset, problem=problem)

    def _in(self, path: str) -> Path:
        """A folder inside of the server's own.

        Raises:
            InputError: It is outside, or not there.
        """
        whole = Path(os.path.realpath(self._root / path))
        if not whole.is_relative_to(self._root):
            raise InputError(
                f"{path} is outside of {self._root}, where this server was started.",
                hint="Start ratchet mcp in the folder that it should work on.",
            )
        if not whole.is_dir():
            raise InputError(f"{path} is not a folder in {self._root}.")
        return whole

    def _project(self, path: str) -> Path:
        """A folder whose project lies inside, too."""
        folder = self._in(path)
        found = folder_with_config(folder)
        if found is not None and not found.is_relative_to(self._root):
            raise InputError(
                f"The project of {path} is {found}, outside of where this server was started.",
                hint="Start ratchet mcp there.",
            )
        return folder

    def _owns_git(self, folder: Path) -> None:
        """Check that a commit would not reach outside."""
        top = next((one for one in (folder, *folder.parents) if (one / ".git").exists()), None)
        if top is not None and not top.is_relative_to(self._root):
            raise InputError(
                f"The git repository begins at {top}, outside of where this server was started.",
                hint="Start ratchet mcp there to commit.",
            )


_NOT_STARTED = InputError("No improvement was started by this server.", hint="Call improve.")


def make_server(root: Path) -> MCPServer:
    """The server for one folder."""
    tools = Tools(root)

    @asynccontextmanager
    async def lifespan(_: MCPServer) -> AsyncIterator[None]:
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await tools.close()

    server = MCPServer(
        "ratchet",
        instructions=INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
        lifespan=lifespan,
    )
    tools.register(server)

    @server.prompt()
    def wire_repository() -> str:
        """Wire the agent of this repository into Ratchet, step by step."""
        return f"Wire the agent of this repository into Ratchet.\n\n{skill_text()}"

    @server.resource("ratchet://skill", mime_type="text/markdown")
    def skill() -> str:
        """How to wire, check and improve an agent, and what never to do."""
        return skill_text()

    return server


def _with_sentences(
    tool: Callable[..., Awaitable[ToolAnswer]],
) -> Callable[..., Awaitable[ToolAnswer]]:
    """The tool with errors as the command line's sentences."""

    @functools.wraps(tool)
    async def call(*args: Any, **named: Any) -> ToolAnswer:
        try:
            return await tool(*args, **named)
        except RatchetError as error:
            raise ToolError(_sentence(error)) from None
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            raise ToolError(f"The system refused{where}: {error.strerror or error}.") from None

    # The server reads annotations, which name this module's types.
    call.__signature__ = inspect.signature(tool, eval_str=True)  # type: ignore[attr-defined]
    call.__annotations__ = {
        name: one.annotation
        for name, one in call.__signature__.parameters.items()  # type: ignore[attr-defined]
    } | {"return": ToolAnswer}
    call.__doc__ = " ".join((tool.__doc__ or "").split())
    return call


def _sentence(error: RatchetError) -> str:
    return f"{error.message}\n{error.hint}" if error.hint else error.message


async def _in_thread(work: Callable[[], Any]) -> Any:
    import msgspec

    made = await anyio.to_thread.run_sync(work)
    return made if isinstance(made, tuple | list) else msgspec.to_builtins(made, str_keys=True)


def _teller(ctx: Context[Any, Any]) -> Callable[[int, str], Awaitable[None]]:
    async def tell(number: int, line: str) -> None:
        await ctx.report_progress(number, None, line)

    return tell


def _plain(text: str) -> str:
    """A text that is no option.

    Raises:
        InputError: It begins with a dash.
    """
    if text.startswith("-"):
        raise InputError(f"{text!r} begins with a dash; no name or id does.")
    return text


def _lowered(folder: Path, rollouts: int | None, seconds: float | None) -> list[str]:
    """Options for a budget that is at most the project's."""
    from ratchet.cli.console import project_in

    budget = project_in(folder).config.improve.budget
    found = []
    for name, given in (("rollouts", rollouts), ("seconds", seconds)):
        limit = getattr(budget, name)
        if given is None:
            continue
        if limit is not None and given > limit:
            raise InputError(
                f"{name} is at most {limit:g}, by [improve.budget] in ratchet.toml.",
                hint="Ask the person to raise it there.",
            )
        found += [f"--{name}", json.dumps(given)]
    return found
