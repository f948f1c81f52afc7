"""The facts that a look at a repository finds, with their places; no decisions."""

from __future__ import annotations

import msgspec


class Place(msgspec.Struct, frozen=True, order=True):
    """A place in the repository."""

    path: str
    """Relative to the repository, with forward slashes."""
    line: int = 0
    """Line number from 1; 0 for the whole file."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


class LanguageShare(msgspec.Struct, frozen=True):
    """A programming language and its share."""

    name: str
    files: int


class UsedFramework(msgspec.Struct, frozen=True):
    """An agent framework or model SDK that is declared or imported."""

    name: str
    place: Place
    """Its first import, or else the manifest that declares it."""
    imported: int
    """Files that import it; 0 if it is only declared."""
    declared: tuple[str, ...] = ()
    """Manifests that declare it."""
    sdk: bool = False
    """Whether it only calls models."""


class CommandCandidate(msgspec.Struct, frozen=True):
    """A command that the owner may run today."""

    command: str
    """The command line, as typed in `folder`."""
    folder: str
    """Relative to the repository; `.` for the repository itself."""
    place: Place
    """Where it stands."""
    source: str
    """Where it is stated: `pyproject.toml script`, `README`."""
    serves: bool = False
    """Whether it starts a service, judged by its words."""


class ProjectTests(msgspec.Struct, frozen=True):
    """Tests of a project, and the command that runs them."""

    command: str
    """The command line, as typed in `folder`."""
    folder: str
    """Relative to the repository; `.` for the repository itself."""
    place: Place
    """The place where the command is declared, or else the first test file."""
    declared: bool
    """Whether the repository itself states the command."""
    files: int
    cases: int
    """Number of test functions."""


class DataTable(msgspec.Struct, frozen=True):
    """A file of rows: CSV, TSV, JSON lines, or a JSON list of objects."""

    path: str
    """Relative to the repository, with forward slashes."""
    form: str
    """`csv`, `tsv`, `jsonl` or `json`."""
    columns: tuple[str, ...]
    """Columns that most rows have."""
    rows: int
    whole: bool
    """Whether all rows were counted; only the first rows of a large file are."""


class PromptText(msgspec.Struct, frozen=True):
    """A text in the source that reads like a prompt."""

    place: Place
    name: str
    """The variable, key or argument that holds it; empty if there is none."""
    text: str
    """Its beginning; each slot is `{…}`."""
    length: int
    """Characters of the whole text."""
    why: str
    """Why it looks like a prompt, as a clause."""


class InventoryProject(msgspec.Struct, frozen=True):
    """A folder with a manifest of its own."""

    folder: str
    """Relative to the repository; `.` for the repository itself."""
    manifests: tuple[str, ...]
    frameworks: tuple[str, ...]


class PassedOver(msgspec.Struct, frozen=True):
    """A file or folder that was not read."""

    path: str
    reason: str


class Inventory(msgspec.Struct, frozen=True):
    """The contents of a repository, according to its files; nothing in it was run."""

    root: str
    """Absolute."""
    git: bool
    files: int
    languages: tuple[LanguageShare, ...]
    projects: tuple[InventoryProject, ...]
    frameworks: tuple[UsedFramework, ...]
    """Orchestrating frameworks first."""
    commands: tuple[CommandCandidate, ...]
    """Most direct statements first; the owner says which one it is."""
    tests: tuple[ProjectTests, ...]
    data_files: tuple[DataTable, ...]
    prompts: tuple[PromptText, ...]
    secret: tuple[str, ...]
    """Files that are listed but were not opened."""
    passed_over: tuple[PassedOver, ...]
