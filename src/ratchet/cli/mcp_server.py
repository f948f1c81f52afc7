"""The tools of `ratchet mcp`: the commands, with typed inputs and bounded answers."""

from __future__ import annotations

import functools
import inspect
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio.to_thread
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

from ratchet._version import __version__
from ratchet.cli.mcp_answers import DATA_NOTE, ToolAnswer, answer, refusal
from ratchet.cli.mcp_commands import Call, CommandFailed, ToolCommands, state_of
from ratchet.cli.mcp_folder import OwnFolder
from ratchet.cli.mcp_hints import Hints
from ratchet.cli.mcp_jobs import Job
from ratchet.cli.mcp_skill import skill_text
from ratchet.cli.mcp_tools import StrictTool
from ratchet.types import InputError, RatchetError

_log = logging.getLogger("ratchet")

INSTRUCTIONS = f"""Ratchet improves an existing LLM agent from its own use, and ships a change \
only if it is proved better on tasks that learning never saw.

In a repository that is not wired yet: look, then wire, with the command that runs the agent today \
and one real input; it runs that command. In a wired project: doctor, status, run, evaluate, \
traces, show, improve, explain, diff, ship. Ask the person before wire runs the command without \
simulated, before commit, ship or send is set to true, before rollback, and before a host is \
allowed. {DATA_NOTE}"""

PathIn = Annotated[str, Field(description="Folder, relative to where the server was started")]
Part = Annotated[str, Field(description="JSON Pointer to the requested part, such as /prompts/0")]
Offset = Annotated[int, Field(ge=0, description="Items or characters of `part` to skip")]
Wait = Annotated[float, Field(ge=0, le=600, description="Maximum seconds to wait for it to end")]
CommandIn = Annotated[
    list[str] | None,
    Field(description="Words of the command that runs the agent today, with one real input"),
]
CandidateIn = Annotated[str, Field(description="source, best, or the start of an id")]
ReleaseIn = Annotated[str | None, Field(description="Start of an id; by default the newest")]
Answered = Annotated[CallToolResult, ToolAnswer]


def _hints(
    *, reads: bool = False, destroys: bool = False, again: bool = False, open_world: bool = False
) -> ToolAnnotations:
    return ToolAnnotations(
        read_only_hint=reads,
        destructive_hint=destroys,
        idempotent_hint=again or reads,
        open_world_hint=open_world,
    )


_READS = _hints(reads=True)
_RUNS_CODE = _hints(destroys=True, open_world=True)
"""The agent's code may do anything unless it is contained."""
_KINDS: dict[str, ToolAnnotations] = {
    **dict.fromkeys(("look", "doctor", "status", "traces", "show", "explain"), _READS),
    **dict.fromkeys(("wire_status", "improve_status", "evaluate_status"), _READS),
    **dict.fromkeys(("wire_cancel", "improve_cancel", "evaluate_cancel"), _hints(again=True)),
    **dict.fromkeys(("wire", "run", "evaluate", "improve", "diff"), _RUNS_CODE),
    "undo": _hints(destroys=True, again=True),
    "releases": _hints(again=True, open_world=True),
    "ship": _hints(destroys=True, again=True, open_world=True),
    "rollback": _hints(destroys=True, open_world=True),
}
"""The hints of each tool: what it changes."""

_OWN_WORDS = frozenset(
    {"doctor", "status", "explain", "improve", "improve_status", "undo"}
    | {"wire_cancel", "improve_cancel", "evaluate_cancel"}
)
"""Tools whose data holds only Ratchet's own texts."""


class Tools:
    """What the server offers.

    Args:
        root: The folder that it was started in; nothing outside is looked at or changed.
    """

    def __init__(self, root: Path) -> None:
        self._folder = OwnFolder(root)
        self._commands = ToolCommands(self._folder.root)
        self.all = [self._tool(name, kind) for name, kind in _KINDS.items()]
        self._hints = Hints({tool.name: tool.parameters for tool in self.all})

    async def look(
        self, ctx: Call, path: PathIn = ".", part: Part = "", offset: Offset = 0
    ) -> ToolAnswer:
        """Report what a repository holds: frameworks, commands that may start the agent, texts \
that read like prompts, tests, data files and names of secrets, each with file and line. Only \
reads; runs and imports nothing, and opens no secret file."""
        arguments = ["init", "--look", "--in", str(self._folder.inside(path))]
        return await self._commands.ask(ctx, arguments, part, offset)

    async def wire(
        self,
        ctx: Call,
        command: CommandIn = None,
        stdin: Annotated[
            str | None, Field(description="Text for the command's standard input")
        ] = None,
        serve: Annotated[
            str | None, Field(description="Command line that starts a service")
        ] = None,
        url: Annotated[
            str | None, Field(description="URL where the service takes requests")
        ] = None,
        data: Annotated[str | None, Field(description="Body of one real request")] = None,
        method: Annotated[str | None, Field(description="POST, or GET without data")] = None,
        inputs: Annotated[
            list[str] | None,
            Field(description="The values that are the task's input; derived by default"),
        ] = None,
        allow: Annotated[
            list[str] | None,
            Field(description="Hosts, programs and folders for rollouts; ask the person first"),
        ] = None,
        simulated: Annotated[
            bool, Field(description="Let a simulated model answer, and contain the run")
        ] = False,
        declare: Annotated[
            bool, Field(description="Also declare the prompts in the source")
        ] = False,
        tests: Annotated[
            bool, Field(description="Run the project's tests before and after")
        ] = True,
        commit: Annotated[
            bool, Field(description="Verify and commit; otherwise record and show a diff")
        ] = False,
        branch: Annotated[str, Field(description="Name of the new branch")] = "ratchet/init",
        no_git: Annotated[
            bool, Field(description="Write the files without git, if there is no repository")
        ] = False,
        timeout_s: Annotated[
            float, Field(gt=0, description="Time limit of the recorded run")
        ] = 600.0,
        wait_s: Wait = 60.0,
        path: PathIn = ".",
    ) -> ToolAnswer:
        """Wire an agent by watching it run once. Give command, or url with data and perhaps \
serve. The agent runs for real unless simulated is true, and what it calls, contacts and writes \
is watched. Without commit, the answer is the diff; with it, the wiring is verified, contained, \
and committed on a new branch. The work continues after this call; wire_status waits for it."""
        folder = await anyio.to_thread.run_sync(self._folder.wired, path)
        if commit and not no_git:
            await anyio.to_thread.run_sync(self._folder.owns_git, folder)
        if bool(command) == bool(url):
            raise InputError("Give either command, or url (with data, and serve to start it).")
        arguments = ["init", "--yes", *([] if commit else ["--dry-run"])]
        arguments += _options(stdin=stdin, serve=serve, url=url, data=data, method=method)
        arguments += _repeated("input", inputs) + _repeated("allow", allow)
        arguments += _options(simulated=simulated, declare=declare, no_tests=not tests)
        arguments += _options(branch=branch, no_git=no_git, timeout=timeout_s)
        arguments += ["--", *command] if command else []
        return await self._commands.start(ctx, Job(folder, "wire"), arguments, wait_s)

    async def wire_status(
        self,
        ctx: Call,
        wait_s: Wait = 60.0,
        path: PathIn = ".",
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """Wait for the newest wiring, whichever session started it, and return its state or what \
was recorded, verified and written."""
        folder = await anyio.to_thread.run_sync(self._folder.wired, path)
        return await self._commands.wait(ctx, Job(folder, "wire"), wait_s, part, offset)

    async def wire_cancel(self, path: PathIn = ".") -> ToolAnswer:
        """Stop the running wiring; the folder is left as it was."""
        folder = await anyio.to_thread.run_sync(self._folder.wired, path)
        return await self._commands.cancel(Job(folder, "wire"))

    async def undo(
        self,
        ctx: Call,
        path: PathIn = ".",
        commit: Annotated[
            bool, Field(description="Undo it; otherwise only say what would be done")
        ] = False,
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """Undo a wiring: by reverting its commit, or from the stored originals. Files edited \
since are kept and listed. Says what would be done, unless commit is true."""
        folder = await anyio.to_thread.run_sync(self._folder.wired, path)
        if commit:
            await anyio.to_thread.run_sync(self._folder.owns_git, folder)
        arguments = ["init", "--undo", *([] if commit else ["--dry-run"])]
        return await self._commands.ask(ctx, [*arguments, "--in", str(folder)], part, offset)

    async def doctor(
        self, ctx: Call, path: PathIn = ".", part: Part = "", offset: Offset = 0
    ) -> ToolAnswer:
        """List the files, modules and prompts that ratchet.toml names and that do not exist, and \
the agent's models that are retired or will be, each with the next step. Runs and changes \
nothing."""
        folder = await anyio.to_thread.run_sync(self._folder.wired, path)
        arguments = ["doctor", "--", str(folder)]
        return await self._commands.ask(ctx, arguments, part, offset)

    async def status(
        self, ctx: Call, path: PathIn = ".", part: Part = "", offset: Offset = 0
    ) -> ToolAnswer:
        """Report what is running in a project, whoever started it, the state of the newest run, \
and what the store holds."""
        project = await self._project(path)
        states = {name: state_of(Job(project, name)) for name in ("improve", "evaluate")}
        jobs = {
            name: {key: value for key, value in state.items() if key != "outcome"}
            for name, state in states.items()
            if state
        }
        data, problem, printed = await self._commands.run(ctx, ["status", "-C", str(project)])
        data = {"jobs": jobs, **data}
        return answer(data, part=part, offset=offset, problem=problem, printed=printed)

    async def run(
        self,
        ctx: Call,
        input: Annotated[str | None, Field(description="Text, or JSON as text")] = None,
        task: Annotated[str | None, Field(description="Id of a task of the task file")] = None,
        split: Literal["train", "val", "test", "all"] | None = None,
        limit: Annotated[int, Field(ge=1, le=200, description="Tasks, with split")] = 3,
        candidate: CandidateIn = "source",
        path: PathIn = ".",
    ) -> ToolAnswer:
        """Run the agent on one input, one task, or some tasks of a split. Give exactly one of \
input, task and split. Tools with side effects are blocked. show gives a rollout's trace by its \
id."""
        if sum(value is not None for value in (input, task, split)) != 1:
            raise InputError("Give exactly one of input, task and split.")
        project = await self._project(path)
        arguments = ["run", *_options(candidate=candidate, task=task, split=split)]
        arguments += ["--limit", str(limit)] if split else []
        arguments += ["--", input] if input is not None else []
        return await self._commands.ask(ctx, arguments, project=project)

    async def evaluate(
        self,
        ctx: Call,
        split: Annotated[
            Literal["train", "val", "test", "all"],
            Field(
                description="test is for the proof: choosing a candidate on it invalidates the "
                "proof"
            ),
        ] = "val",
        candidates: Annotated[
            list[str] | None, Field(description="source (the default), best, or the start of an id")
        ] = None,
        limit: Annotated[int | None, Field(ge=1, description="Maximum number of tasks")] = None,
        repeat: Annotated[int, Field(ge=1, le=100, description="Rollouts per task")] = 1,
        fresh: Annotated[bool, Field(description="Run again even if there is a result")] = False,
        wait_s: Wait = 20.0,
        path: PathIn = ".",
    ) -> ToolAnswer:
        """Start running candidates on a split, to get the mean score of each evaluator with its \
interval; the work continues after this call, and evaluate_status waits for it."""
        project = await self._project(path)
        arguments = ["eval", *_options(split=split, limit=limit, repeat=repeat, fresh=fresh)]
        arguments += _repeated("candidate", candidates)
        return await self._commands.start(ctx, Job(project, "evaluate"), arguments, wait_s)

    async def evaluate_status(
        self,
        ctx: Call,
        wait_s: Wait = 20.0,
        path: PathIn = ".",
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """Wait for the newest evaluation, whichever session started it, and return its state or \
its means."""
        job = Job(await self._project(path), "evaluate")
        return await self._commands.wait(ctx, job, wait_s, part, offset)

    async def evaluate_cancel(self, path: PathIn = ".") -> ToolAnswer:
        """Stop the running evaluation. Its finished rollouts are kept."""
        return await self._commands.cancel(Job(await self._project(path), "evaluate"))

    async def traces(
        self,
        ctx: Call,
        agent: str | None = None,
        errors: Annotated[bool, Field(description="Only traces with errors")] = False,
        since: Annotated[str | None, Field(description="For example 1h, 2d, or a date")] = None,
        feedback: Annotated[bool, Field(description="Only traces with feedback")] = False,
        rollouts: Annotated[bool, Field(description="Include traces of rollouts")] = False,
        sort: Literal["newest", "slowest", "costliest"] = "newest",
        limit: Annotated[int, Field(ge=1, le=200)] = 20,
        path: PathIn = ".",
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """List traces of the agent's live calls; with rollouts, also those of what run and \
improve ran."""
        arguments = ["traces", "-C", str(await self._project(path))]
        arguments += _options(agent=agent, since=since, sort=sort, limit=limit)
        arguments += _options(errors=errors, feedback=feedback, rollouts=rollouts)
        return await self._commands.ask(ctx, arguments, part, offset)

    async def show(
        self,
        ctx: Call,
        id: Annotated[str, Field(description="An id, or its start")],
        path: PathIn = ".",
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """Show a trace, conversation, rollout, run, candidate, experiment or release."""
        arguments = ["show", "-C", str(await self._project(path)), "--", id]
        return await self._commands.ask(ctx, arguments, part, offset)

    async def explain(
        self,
        ctx: Call,
        id: Annotated[
            str | None, Field(description="Start of an id; by default the newest decision")
        ] = None,
        path: PathIn = ".",
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """Explain a decision in plain words: why the verdict is what it is, and what would \
change it."""
        arguments = ["explain", "-C", str(await self._project(path)), "--", *([id] if id else [])]
        return await self._commands.ask(ctx, arguments, part, offset)

    async def diff(
        self,
        ctx: Call,
        before: CandidateIn = "source",
        after: CandidateIn = "best",
        path: PathIn = ".",
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """Compare two candidates; with source, also as a patch of the files. Imports the agent's \
code, and changes nothing itself."""
        project = await self._project(path)
        return await self._commands.ask(
            ctx, ["diff", "--", before, after], part, offset, project=project
        )

    async def releases(
        self, ctx: Call, path: PathIn = ".", part: Part = "", offset: Offset = 0
    ) -> ToolAnswer:
        """List releases with their state in the repository and on the forge, which is queried."""
        project = await self._project(path, sends=True)
        return await self._commands.ask(ctx, ["releases", "-C", str(project)], part, offset)

    async def ship(
        self,
        ctx: Call,
        release: ReleaseIn = None,
        send: Annotated[
            bool,
            Field(description="Push the branch and open the pull request; otherwise show both"),
        ] = False,
        draft: Annotated[
            bool, Field(description="Propose what was not proved, as a draft for people")
        ] = False,
        path: PathIn = ".",
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """Push the branch of a release and open its pull request. Shows what would be sent, \
unless send is true. An open pull request is updated."""
        project = await self._project(path, sends=True)
        await anyio.to_thread.run_sync(self._folder.owns_git, project)
        arguments = ["ship", *([] if send else ["--dry-run"]), *_options(draft=draft)]
        arguments += ["--", *([release] if release else [])]
        return await self._commands.ask(ctx, arguments, part, offset, project=project)

    async def rollback(
        self, ctx: Call, release: ReleaseIn = None, path: PathIn = "."
    ) -> ToolAnswer:
        """Undo a release: delete its branch, or, if it was merged, make and propose a branch \
that reverts it. Returns the commit's hash, so nothing is lost."""
        project = await self._project(path, sends=True)
        await anyio.to_thread.run_sync(self._folder.owns_git, project)
        arguments = ["rollback", "--", *([release] if release else [])]
        return await self._commands.ask(ctx, arguments, project=project)

    async def improve(
        self,
        ctx: Call,
        rollouts: Annotated[
            int | None,
            Field(ge=1, description="Maximum in all: baseline, learning and proof"),
        ] = None,
        seconds: Annotated[
            float | None, Field(ge=1, description="Time for learning; can only lower the budget")
        ] = None,
        seed: Annotated[int | None, Field(ge=0)] = None,
        algorithm: str | None = None,
        ship: Annotated[bool, Field(description="Make a branch of a proved change")] = False,
        wait_s: Wait = 20.0,
        path: PathIn = ".",
    ) -> ToolAnswer:
        """Start learning a better candidate and proving it on held-out tasks; the work continues \
after this call and after this session, and improve_status waits for it. The budget is that of \
ratchet.toml; rollouts and seconds only lower it. Nothing is shipped unless ship is true. After a \
stop, make the same call again to continue."""
        project = await self._project(path)
        if ship:
            await anyio.to_thread.run_sync(self._folder.owns_git, project)
        arguments = ["improve", "--ship" if ship else "--no-ship"]
        arguments += _options(at_most=rollouts, seed=seed, algorithm=algorithm)
        if seconds is not None:
            _check_lowers(project, seconds)
            arguments += ["--seconds", json.dumps(seconds)]
        return await self._commands.start(ctx, Job(project, "improve"), arguments, wait_s)

    async def improve_status(
        self,
        ctx: Call,
        wait_s: Wait = 20.0,
        path: PathIn = ".",
        part: Part = "",
        offset: Offset = 0,
    ) -> ToolAnswer:
        """Wait for the newest improvement, whichever session started it, and return its state or \
outcome."""
        job = Job(await self._project(path), "improve")
        return await self._commands.wait(ctx, job, wait_s, part, offset)

    async def improve_cancel(self, path: PathIn = ".") -> ToolAnswer:
        """Stop the running improvement. Its finished work is saved; improve continues it."""
        return await self._commands.cancel(Job(await self._project(path), "improve"))

    async def _project(self, path: str, *, sends: bool = False) -> Path:
        return await anyio.to_thread.run_sync(
            functools.partial(self._folder.project, path, sends=sends)
        )

    def _tool(self, name: str, kind: ToolAnnotations) -> StrictTool:
        return StrictTool.of(self._bounded(name, getattr(self, name)), kind)

    def _bounded(
        self, name: str, tool: Callable[..., Awaitable[ToolAnswer]]
    ) -> Callable[..., Awaitable[CallToolResult]]:
        """The tool, with errors rewritten for a reader who has tools."""

        @functools.wraps(tool)
        async def call(*args: Any, **kwargs: Any) -> CallToolResult:
            try:
                answered = await tool(*args, **kwargs)
            except CommandFailed as error:
                return refusal(self._hints.text(error.message, name), error.printed)
            except RatchetError as error:
                hint = f"\n{error.hint}" if error.hint else ""
                return refusal(self._hints.text(f"{error.message}{hint}", name))
            except OSError as error:
                where = f" {error.filename}" if error.filename else ""
                return refusal(f"The system refused{where}: {error.strerror or error}.")
            except Exception as error:
                _log.exception("The tool %s failed", name)
                what = f"Ratchet itself failed: {type(error).__name__}: {error}"
                return refusal(f"{what}\nPlease report it with the steps that led to it.")
            answered.problem = self._hints.text(answered.problem, name)
            if name in _OWN_WORDS:
                answered.data = self._hints.data(answered.data, name)
            elif isinstance(answered.data, dict) and name in ("wire", "wire_status"):
                outcome = answered.data.get("outcome")
                if isinstance(outcome, dict) and "next" in outcome:
                    outcome["next"] = self._hints.data(outcome["next"], name)
            return answered.result()

        # The server reads annotations, which name this module's types.
        signature = inspect.signature(tool, eval_str=True)
        call.__signature__ = signature.replace(return_annotation=Answered)  # type: ignore[attr-defined]
        call.__annotations__ = {
            parameter.name: parameter.annotation for parameter in signature.parameters.values()
        } | {"return": Answered}
        call.__doc__ = " ".join((tool.__doc__ or "").split())
        return call


def make_server(root: Path) -> MCPServer:
    """The server for one folder."""
    server = MCPServer(
        "ratchet",
        instructions=INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
        tools=list(Tools(root).all),
    )

    @server.prompt()
    def wire_repository() -> str:
        """Wire the agent of this repository into Ratchet, step by step."""
        return f"Wire the agent of this repository into Ratchet.\n\n{skill_text()}"

    @server.resource("ratchet://skill", mime_type="text/markdown")
    def skill() -> str:
        """How to wire, run and improve an agent, and what never to do."""
        return skill_text()

    return server


def _options(**values: Any) -> list[str]:
    """Options of a command; one that is None or False is left out.

    A value is joined to its option, so that none that begins with a dash is taken for another.
    """
    options = []
    for name, value in values.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            options.append(option)
        elif value is not None and value is not False:
            options.append(f"{option}={value}")
    return options


def _repeated(name: str, values: list[str] | None) -> list[str]:
    return [f"--{name}={value}" for value in values or ()]


def _check_lowers(project: Path, seconds: float) -> None:
    """Refuse a time longer than the project's budget.

    Raises:
        InputError: It is.
    """
    from ratchet.cli.console import project_in

    limit = project_in(project).config.improve.budget.seconds
    if limit is not None and seconds > limit:
        raise InputError(
            f"seconds may be at most {limit:g}, the limit of [improve.budget] in ratchet.toml.",
            hint="Ask the person to raise it there.",
        )
