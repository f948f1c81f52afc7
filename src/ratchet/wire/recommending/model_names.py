"""Names of models as code and settings beside the model calls write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec

from ratchet.source.secret_files import is_secret
from ratchet.wire.facts import Place, RepositoryLook
from ratchet.wire.looking.files import is_env_file
from ratchet.wire.recommending.choosing import within

MOST_FILES, LARGEST = 300, 300_000
"""Files that are read, and bytes of the largest."""

_ENDINGS = frozenset(
    {".py", ".ts", ".tsx", ".js", ".mjs", ".cjs", ".jsx", ".yaml", ".yml", ".toml", ".json"}
)
_BESIDE = (
    *("config", "configs", "settings", "core", "llm", "llms", "models"),
    *("ai", "lib", "providers", "utils", "agents"),
)
MOST_NAMED = 6
"""Models of one file from which on it is a table of models, not a choice of one."""
_PASSED = re.compile(r"test|eval|lock|package\.json|example", re.IGNORECASE)
_NAME = r"[A-Za-z0-9][\w.:/@-]{1,80}"
_SAID = re.compile(
    rf"""\b\w*(?:model|llm|deployment)(?:_?(?:name|id))?["']?\s*(?::\s*[\w\[\] |.]+=|=(?!=)|:)\s*"""
    rf"""(?:f?["']({_NAME})["']|({_NAME}/{_NAME})\s*$)""",
    re.IGNORECASE | re.MULTILINE,
)
_DEFAULT = re.compile(
    rf"""(?:getenv|environ\.get)\(\s*["'][A-Z_]*MODEL[A-Z_]*["']\s*,\s*["']({_NAME})["']"""
)
_FAMILY = re.compile(
    r"""["']((?:[a-z_-]+[:/])*(?:gpt-|o[1-9](?:-|["'])|chatgpt|claude-|gemini-|gemma|llama|codellama"""
    r"""|mi[sx]tral|ministral|codestral|command-|deepseek|grok-|qwen|sonar|kimi|glm-)[\w.:/@-]*)["']""",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"embed|voyage|bge-|cross-encoder|sentence-transformers|whisper|tts|dall-?e|rerank|moderation"
    r"|^llama-?index|^models?$",
    re.IGNORECASE,
)
_WORDS = frozenset({"model", "str", "none", "default", "auto", "custom", "base", "openai"})


class ModelName(msgspec.Struct, frozen=True, order=True):
    """A model that is named somewhere."""

    name: str
    place: Place


def model_names(root: Path, look: RepositoryLook, project: str) -> tuple[ModelName, ...]:
    """Models that a project names, each at its first place.

    The files of the model calls, those beside them, and settings are read; no files of secrets.
    Names that stand only in the environment are not found.

    Args:
        root: The repository.
        look: Its facts.
        project: Folder of the project.
    """
    calls = [one.place.path for one in look.model_calls if within(one.place.path, project)]
    found: dict[str, ModelName] = {}
    for path in _files(root.resolve(), list(dict.fromkeys(calls)), project):
        try:
            text = (root / path).read_text(encoding="utf-8-sig", errors="replace")
        except OSError:
            continue
        named = sorted(_named(text))
        if len({name for _, name in named}) > MOST_NAMED:
            continue
        for at, name in named:
            line = text.count("\n", 0, at) + 1
            found.setdefault(name, ModelName(name, Place(path, line)))
    return tuple(found.values())


def _named(text: str) -> Iterator[tuple[int, str]]:
    for pattern in (_SAID, _DEFAULT, _FAMILY):
        for one in pattern.finditer(text):
            name = next(group for group in one.groups() if group).strip("\"'")
            if name.lower() in _WORDS or _OTHER.search(name) or "://" in name:
                continue
            # A word alone is an attribute or a class: models have versions, sizes or makers.
            if re.search(r"\d|[-/:]", name) and not name.endswith((".py", ".json", ".yaml")):
                yield one.start(), name


def _files(root: Path, calls: list[str], project: str) -> Iterator[str]:
    """The files of model calls, then those beside them and above them in the project."""
    folders: dict[PurePosixPath, None] = {}
    for path in calls:
        for parent in PurePosixPath(path).parents:
            if within(parent.as_posix(), project) or project == ".":
                folders.setdefault(parent)
                folders |= dict.fromkeys(parent / name for name in _BESIDE)
    yield from calls
    number = 0
    for folder in folders:
        try:
            entries = sorted((root / folder).iterdir())
        except OSError:
            continue
        for one in entries:
            path = (folder / one.name).as_posix()
            if (
                path in calls
                or one.suffix not in _ENDINGS
                or one.name.startswith(".")
                or is_env_file(one.name)
                or is_secret(one.name)
                or _PASSED.search(one.name)
                or one.is_symlink()
                or not one.is_file()
                or one.stat().st_size > LARGEST
            ):
                continue
            number += 1
            if number > MOST_FILES:
                return
            yield path
