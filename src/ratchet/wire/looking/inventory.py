"""What a look at a repository finds: facts with their places, and no decision."""

from __future__ import annotations

import msgspec


class Place(msgspec.Struct, frozen=True, order=True):
    """Where something stands."""

    path: str
    """Relative to the repository, with forward slashes."""
    line: int = 0
    """From 1; 0 for the whole file."""

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
    """Its first import; else where a manifest declares it."""
    imported: int
    """Files that import it; 0 where it is only declared."""
    declared: tuple[str, ...] = ()
    """Manifests that declare it."""
    sdk: bool = False
    """Whether it only calls models."""


class CommandCandidate(msgspec.Struct, frozen=True):
    """A command that may be the one that the owner runs today."""

    command: str
    """As it would be typed in `folder`."""
    folder: str
    """Relative to the repository; `.` for itself."""
    place: Place
    """Where it stands."""
    source: str
    """What states it: `pyproject.toml script`, `README`."""
    serves: bool = False
    """Whether it starts a service, as far as its words tell."""


class ProjectTests(msgspec.Struct, frozen=True):
    """Tests of a project, and the command that runs them."""

    command: str
    """As it would be typed in `folder`."""
    folder: str
    """Relative to the repository; `.` for itself."""
    place: Place
    """Where the command is declared; else the first file of tests."""
    declared: bool
    """Whether the repository states the command itself."""
    files: int
    cases: int
    """Test functions."""


class DataTable(msgspec.Struct, frozen=True):
    """A file of rows: CSV, TSV, JSON lines, or a JSON list of objects."""

    path: str
    """Relative to the repository, with forward slashes."""
    form: str
    """`csv`, `tsv`, `jsonl` or `json`."""
    columns: tuple[str, ...]
    """That most rows have."""
    rows: int
    whole: bool
    """Whether all rows were counted; of a large file only the first are."""


class PromptText(msgspec.Struct, frozen=True):
    """A text in the source that reads like a prompt."""

    place: Place
    name: str
    """Variable, key or argument that it stands for; empty where it has none."""
    text: str
    """Its beginning; each slot is `{…}`."""
    length: int
    """Characters of the whole."""
    why: str
    """What tells that a model reads it, as a clause."""


class InventoryProject(msgspec.Struct, frozen=True):
    """A folder with a manifest of its own."""

    folder: str
    """Relative to the repository; `.` for itself."""
    manifests: tuple[str, ...]
    frameworks: tuple[str, ...]


class PassedOver(msgspec.Struct, frozen=True):
    """A file or folder that was not read."""

    path: str
    reason: str


class Inventory(msgspec.Struct, frozen=True):
    """What a repository holds, as far as its files say; nothing of it was run."""

    root: str
    """Absolute."""
    git: bool
    files: int
    languages: tuple[LanguageShare, ...]
    projects: tuple[InventoryProject, ...]
    frameworks: tuple[UsedFramework, ...]
    """Those that orchestrate first."""
    commands: tuple[CommandCandidate, ...]
    """Most direct statements first; which one it is, is for the owner to say."""
    tests: tuple[ProjectTests, ...]
    data_files: tuple[DataTable, ...]
    prompts: tuple[PromptText, ...]
    secret: tuple[str, ...]
    """Files that are named and were not opened."""
    passed_over: tuple[PassedOver, ...]
