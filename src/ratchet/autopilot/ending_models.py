"""Which models that a project uses end: those that it called, names in its settings and source."""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ratchet.llm.endings import Ending, ending_of
from ratchet.observe.project_paths import FILE_NAME
from ratchet.source.files import own_files
from ratchet.source.literals.languages import TEXT, language_of
from ratchet.source.literals.source_files import is_generated, is_searched, is_test, read_text
from ratchet.store import Store
from ratchet.store.location import parse

LOOK_BACK = datetime.timedelta(days=30)
"""A model that the agent called within this time counts as one that it uses."""

_NAME = r"[A-Za-z0-9][\w./:@-]{1,120}"
_IN_SOURCE = re.compile(
    rf"""(["'])(?P<quoted>{_NAME})\1|(?mi:^[\s-]*[\w-]*model[\w-]*\s*[:=]\s*(?P<bare>{_NAME})\s*(?:\#.*)?$)"""
)
"""A text that may be a model's name: quoted, or unquoted as the value of a `model`."""

Use = tuple[Ending, str, bool]
"""The end of a model, where it is used, and whether it is the agent that uses it."""


class EndingModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a project uses, and whose end its provider has announced."""

    model: str
    used: str
    """Where it is used, as a clause."""
    ends_on: datetime.date | None
    """None where only its deprecation is known."""
    past: bool
    """Whether it has ended."""
    what: str
    """In a sentence."""
    next_step: str
    """In a sentence, or a command."""
    source: str
    """Who says so."""


def ending_models(root: Path, store_url: str, today: datetime.date) -> tuple[EndingModel, ...]:
    """Those of a project's models that end, soonest first.

    Names in its source count where no call to a model is recorded.

    Args:
        root: The project's folder, with a `ratchet.toml` that can be read.
        store_url: URL of its store.
        today: The day for which they are judged.

    Raises:
        StoreError: The store cannot be read.
    """
    called = _called(store_url, today)
    in_agent = called if called is not None else _in_source(root)
    ending = [*_in_settings(root), *in_agent]
    first: dict[str, Use] = {}
    for end, used, by_agent in ending:
        first.setdefault(end.model, (end, used, by_agent))
    return tuple(
        EndingModel(
            model=end.model,
            used=used,
            ends_on=end.on,
            past=end.is_past(today),
            what=f"{end.sentence(today)} {used}.",
            next_step=end.command() if by_agent else "Name another model there.",
            source=end.source,
        )
        for end, used, by_agent in sorted(
            first.values(), key=lambda entry: (entry[0].on or datetime.date.max, entry[0].model)
        )
    )


def _called(store_url: str, today: datetime.date) -> list[Use] | None:
    """Uses in recorded calls; None where no call is recorded."""
    url = parse(store_url)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists():
        return None
    since = datetime.datetime.combine(today - LOOK_BACK, datetime.time(), datetime.UTC)
    with Store.open(store_url) as store:
        called = store.called_models.list(int(since.timestamp()) * 10**9)
    uses = []
    for model in called:
        if end := ending_of(model.model, model.provider):
            day = datetime.datetime.fromtimestamp(model.last_ns / 1e9, datetime.UTC)
            by = model.agent or "The agent"
            uses.append((end, f"{by} last called it on {day.day} {day:%B}", True))
    return uses if called else None


def _in_settings(root: Path) -> Iterator[Use]:
    """Uses in `ratchet.toml`."""
    settings = tomllib.loads((root / FILE_NAME).read_text(encoding="utf-8"))
    for path, name in _texts(settings, ()):
        if any("model" in key.lower() for key in path) and (end := ending_of(name)):
            key = ".".join(path)
            yield end, f"{FILE_NAME} names it in {key}", path[0] == "agent"


def _texts(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The texts in a TOML value, with the keys that lead to each."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, path)


def _in_source(root: Path) -> Iterator[Use]:
    """Uses in the project's source."""
    root = root.resolve()
    for file in own_files(root):
        path = file.relative_to(root).as_posix()
        if path == FILE_NAME or not is_searched(path) or is_test(path):
            continue
        text = read_text(file, root)
        if text is None or is_generated(text) or language_of(path, text) is TEXT:
            continue
        for match in _IN_SOURCE.finditer(text):
            name, start = match["quoted"] or match["bare"], match.start(match.lastgroup or 0)
            line = text[text.rfind("\n", 0, start) + 1 : text.find("\n", start)]
            # What is short and has no hyphen, such as "o1", may be anything.
            if "-" not in name and "model" not in line.lower():
                continue
            if end := ending_of(name):
                number = text.count("\n", 0, start) + 1
                yield end, f"{path}:{number} names it", True
