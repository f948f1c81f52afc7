"""What a project's settings name that does not exist, and the retired models that it uses."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ratchet.autopilot.config import Config, read_config
from ratchet.autopilot.ending_models import EndingModel, ending_models
from ratchet.observe.project_paths import FILE_NAME, folder_with_config, store_url
from ratchet.ship import Repository
from ratchet.source import SourceTree
from ratchet.types import ConfigError, InputError, ShipError, StoreError
from ratchet.wire.applying.undo import wired
from ratchet.wire.looking.inventory import Place

_DECLARED = re.compile(r"\bprompt\(\s*[\"']([^\"']+)[\"']")


class Misfit(msgspec.Struct, frozen=True):
    """Something that does not fit, with the one next step."""

    place: Place
    what: str
    """In a sentence."""
    next_step: str
    """In a sentence, or a command."""


class Diagnosis(msgspec.Struct, frozen=True):
    """What is wrong with a project, judged by its settings, records and source."""

    root: str
    """Folder of the project."""
    misfits: tuple[Misfit, ...]
    """What does not fit; empty if all does."""
    ending_models: tuple[EndingModel, ...] = ()
    """Those that end soonest come first."""


def diagnose(folder: Path, today: datetime.date) -> Diagnosis:
    """Check a project's settings and declarations, and whether any of its models end.

    Args:
        folder: The project's folder, or one in it.
        today: The day for which models that end are judged.

    Raises:
        InputError: There is no `ratchet.toml` at or above the folder.
    """
    root = folder_with_config(folder)
    if root is None:
        raise InputError(
            f"There is no {FILE_NAME} in {folder.resolve()} or above it.",
            hint="Wire the agent first: ratchet init -- COMMAND",
        )
    file = root / FILE_NAME
    try:
        config = read_config(file)
    except ConfigError as error:
        what = error.message.removeprefix(f"{file}: ")
        return Diagnosis(str(root), (Misfit(Place(FILE_NAME), what, error.hint or "Correct it."),))
    text = file.read_text(errors="replace")
    missing = (
        Misfit(Place(FILE_NAME, _line(text, value)), what, step)
        for value, what, step in _missing(root, config)
    )
    misfits = [*missing, *_undeclared(root)]
    ending: tuple[EndingModel, ...] = ()
    try:
        ending = ending_models(root, store_url(root, config.store.url), today)
    except StoreError as error:
        what = f"The store, which says which models were called, cannot be read: {error.message}"
        misfits.append(Misfit(Place(FILE_NAME), what, error.hint or "Correct [store] url."))
    return Diagnosis(str(root), tuple(misfits), ending)


def _missing(root: Path, config: Config) -> Iterator[tuple[str, str, str]]:
    """Values of settings that name what does not exist, each with a sentence and a next step."""
    for folder in config.agent.path:
        if not (root / folder).is_dir():
            yield folder, f"The folder {folder} does not exist.", "Correct [agent] path."
    entry = config.agent.entry
    if entry and (lack := _lacking(root, config, entry)):
        yield entry, f"The entry {entry} does not exist: {lack}.", "Correct [agent] entry."
    tasks = config.tasks
    if tasks.dataset is None and not (root / tasks.file).is_file():
        yield tasks.file, f"The task file {tasks.file} does not exist.", "Correct [tasks] file."
    for evaluator in config.evaluators:
        if ":" in evaluator.use and (lack := _lacking(root, config, evaluator.use)):
            what = f"The evaluator {evaluator.use} does not exist: {lack}."
            yield evaluator.use, what, "Correct its use."
    for prompts in config.prompt_files:
        if not (root / prompts.path).is_file():
            what = f"The prompt file {prompts.path} does not exist."
            yield prompts.path, what, "Correct its path."


def _lacking(root: Path, config: Config, reference: str) -> str:
    """Why MODULE:NAME is not in a project; empty if it is, or may be an installed package's."""
    dotted, _, name = reference.partition(":")
    tree = SourceTree(root, config.agent.path)
    file = tree.find(dotted)
    if file is None:
        own = tree.find(dotted.partition(".")[0]) or tree.is_folder(dotted.partition(".")[0])
        return f"there is no module {dotted}" if own or "." not in dotted else ""
    first = re.escape(re.match(r"\w*", name)[0])  # type: ignore[index]
    defined = re.search(rf"\b{first}\b", file.read_text(errors="replace"))
    return "" if defined else f"{file.name} has no {name}"


def _undeclared(root: Path) -> Iterator[Misfit]:
    """Prompts that the wiring declared in a file that no longer declares them."""
    try:
        record = wired(root)
        repository = Repository.open(root)
    except (InputError, ShipError):
        return
    for file in record.files if record else ():
        if not file.before or record is None:
            continue
        path = repository.root / record.folder / file.path
        try:
            declared = _names(repository.output("cat-file", "blob", file.after))
            still = _names(path.read_bytes())
        except (OSError, ShipError):
            continue
        for name in sorted(declared - still):
            what = f"The declaration of the prompt {name} is gone."
            yield Misfit(Place(file.path), what, "Declare it again, or: ratchet init --undo")


def _names(data: bytes) -> set[str]:
    return set(_DECLARED.findall(data.decode(errors="replace")))


def _line(text: str, value: str) -> int:
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if value in line.partition("#")[0]), 0)
