"""What a look into a repository found: frozen facts, each with its place, confidence and reason."""

from __future__ import annotations

from typing import Literal

import msgspec

from ratchet.wire.looking.inventory import LanguageShare as LanguageShare
from ratchet.wire.looking.inventory import PassedOver as PassedOver
from ratchet.wire.looking.inventory import Place as Place

EntryKind = Literal[
    "function",
    "graph",
    "crew",
    "workflow",
    "agent",
    "program",
    "route",
    "app",
    "script",
    "notebook",
]

PromptKind = Literal[
    "constant",
    "f-string",
    "inline",
    "builder",
    "class attribute",
    "signature",
    "yaml",
    "toml",
    "json",
    "text",
    "framework default",
    "store",
]

BindingWay = Literal["overlay", "codemod", "function", "gateway", "adapter"]

EffectKind = Literal[
    "mail",
    "payment",
    "delete",
    "post",
    "shell",
    "exec",
    "file write",
    "database write",
    "desktop",
    "named action",
    "database read",
    "web read",
]


class Manifest(msgspec.Struct, frozen=True):
    """A file that declares dependencies or how a project starts."""

    path: str
    kind: str
    """`pyproject`, `requirements`, `package.json`, …"""
    manager: str
    """`pip`, `poetry`, `uv`, `npm`, …; empty if it installs nothing."""
    name: str = ""
    dependencies: dict[str, str] = {}
    """Version constraint by distribution."""


class ProjectMember(msgspec.Struct, frozen=True):
    """A project of the repository that has an agent of its own."""

    path: str
    """Folder, relative to the repository; `.` for the repository itself."""
    frameworks: tuple[str, ...]
    prompts: int


class FrameworkUse(msgspec.Struct, frozen=True):
    """A framework or SDK that live code imports."""

    name: str
    version: str
    """As the manifest constrains it; empty if no manifest names it."""
    place: Place
    """Its first import."""
    files: int
    confidence: float
    reason: str


class EntryPoint(msgspec.Struct, frozen=True):
    """A way into an agent."""

    name: str
    """Such as `run_agent`, `ResearchManager.run` or `POST /chat`."""
    kind: EntryKind
    place: Place
    call: str
    """How one calls it."""
    inputs: tuple[str, ...]
    """Parameters as they are declared, or the keys that are passed."""
    output: str
    """Declared type of the result, if any."""
    framework: str
    confidence: float
    reason: str


class ModelCallSite(msgspec.Struct, frozen=True):
    """A call that runs a model or an agent."""

    callee: str
    """Resolved name, such as `anthropic.Anthropic.messages.create`."""
    framework: str
    place: Place
    within: str
    """Function or class that holds it; empty at the top of a module."""
    confidence: float
    reason: str


class PromptPart(msgspec.Struct, frozen=True):
    """One text of a prompt, with its bytes in the file."""

    field: str
    """Argument, key or role that it fills; empty for the only part."""
    place: Place
    start: int
    end: int
    """Byte span of the literal in the file's UTF-8 text; both 0 where it is not one literal."""
    text: str
    """Static text; `{…}` stands for each slot."""
    slots: tuple[str, ...] = ()
    """Source of each slot."""


class PromptSite(msgspec.Struct, frozen=True):
    """A prompt that reaches a model call, or, among those left out, the reason why it does not."""

    name: str
    kind: PromptKind
    place: Place
    role: str
    """`system` or `user`."""
    parts: tuple[PromptPart, ...]
    binding: BindingWay
    how: str
    """How it can be bound, in a sentence."""
    reaches: tuple[Place, ...]
    """The calls that it flows into."""
    framework: str
    confidence: float
    reason: str


class ToolSite(msgspec.Struct, frozen=True):
    """A function that a model may call."""

    name: str
    place: Place
    description: str
    effects: tuple[EffectKind, ...]
    confidence: float
    reason: str


class SideEffect(msgspec.Struct, frozen=True):
    """A call that acts, or reaches, outside of the process."""

    kind: EffectKind
    what: str
    place: Place
    within: str
    tool: str
    """The tool that leads to it; empty if none does."""
    acts: bool
    """Whether it changes something; reads are listed because a sandbox must allow them."""
    confidence: float
    reason: str


class SecretName(msgspec.Struct, frozen=True):
    """A secret by its name; values are never read."""

    name: str
    place: Place
    kind: Literal["variable", "file"]
    reason: str


class FoundTests(msgspec.Struct, frozen=True):
    """Tests of a project, and the command that runs them."""

    project: str
    """Folder of the project; `.` for the repository itself."""
    runner: str
    """`pytest`, `unittest`, `vitest`, `jest`, `mocha`, `node`, …"""
    command: str
    """To be run in the folder of the project."""
    place: Place
    """Where the command is declared, else the first file of tests."""
    files: int
    cases: int
    """Test functions and methods in the source; parameters may make more of them."""
    confidence: float
    reason: str


class TracingUse(msgspec.Struct, frozen=True):
    """Tracing that the agent has already."""

    name: str
    """Library or framework, such as `langfuse`."""
    place: Place
    """Its import, or the call, command or dependency that shows it."""
    provider: Place | None
    """Where it sets OpenTelemetry's global tracer provider; None if it sets none."""
    confidence: float
    reason: str


class TaskDataSite(msgspec.Struct, frozen=True):
    """Data that could become tasks; its values are not kept."""

    place: Place
    format: str
    """`csv`, `tsv`, `jsonl`, `json` or `few-shot list`."""
    rows: int
    whole: bool
    """Whether all rows were read; if not, there are more."""
    inputs: tuple[str, ...]
    """Columns that look like inputs."""
    expected: tuple[str, ...]
    """Columns that look like answers; empty if none does."""
    confidence: float
    reason: str


class RepositoryLook(msgspec.Struct, frozen=True):
    """All facts of one look."""

    root: str
    git: bool
    files: int
    languages: tuple[LanguageShare, ...]
    manifests: tuple[Manifest, ...]
    monorepo: bool
    members: tuple[ProjectMember, ...]
    frameworks: tuple[FrameworkUse, ...]
    entries: tuple[EntryPoint, ...]
    model_calls: tuple[ModelCallSite, ...]
    prompts: tuple[PromptSite, ...]
    prompts_left_out: tuple[PromptSite, ...]
    framework_prompts: tuple[PromptSite, ...]
    """Texts of a framework that reach a model call; only the gateway can replace them."""
    tools: tuple[ToolSite, ...]
    side_effects: tuple[SideEffect, ...]
    secrets: tuple[SecretName, ...]
    tests: tuple[FoundTests, ...]
    tracing: tuple[TracingUse, ...]
    task_data: tuple[TaskDataSite, ...]
    left_out: tuple[PassedOver, ...]
    unreadable: tuple[PassedOver, ...]
    looked_for: tuple[str, ...]
    """What was searched for; filled when no agent was found."""
    seconds: float
