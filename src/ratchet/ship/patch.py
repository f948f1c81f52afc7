"""The smallest edit of the user's source that turns the baseline into the candidate."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratchet.ship.config_values import ConfigSource, verify_config
from ratchet.ship.edit import (
    PatchTarget,
    SourceEdit,
    changed_since,
    holds_value,
    values_of,
    verify,
    write_edit,
)
from ratchet.ship.file_edits import file_edit
from ratchet.ship.literal_patch import (
    declared_prompt,
    literal_edit,
    read_text_source,
    undeclared_prompt,
    verify_literals,
)
from ratchet.ship.read_edits import config_edit, read_by, read_by_splat, text_edit
from ratchet.ship.source_file import SourceFile, read_source
from ratchet.ship.source_slots import UNREADABLE, declaring_line, find_slots
from ratchet.source.javascript_prompts import declared_prompts
from ratchet.source.literals.data_values import same_value
from ratchet.types import (
    Candidate,
    Code,
    Declaration,
    Model,
    Params,
    PromptTemplate,
    Resource,
    ShipError,
    kind_of,
)
from ratchet.types.knobs import domain
from ratchet.types.wording import counted


@dataclass(frozen=True)
class Patch:
    """Edits of files that are not written yet."""

    files: Mapping[str, tuple[bytes, bytes]]
    """(old, new) content by path relative to the root."""
    edits: tuple[SourceEdit, ...]

    @property
    def targets(self) -> tuple[PatchTarget, ...]:
        """The changed resources, in order."""
        return tuple(dict.fromkeys(edit.target for edit in self.edits))

    def diff(self) -> str:
        """The patch as unified diff text."""
        return diff_files(self.files)


def make_patch(
    baseline: Candidate,
    candidate: Candidate,
    declarations: Mapping[str, Declaration],
    root: Path,
) -> Patch:
    """Compute the edit, without writing it.

    Args:
        baseline: The source's own state, as measured.
        candidate: The required state of the source.
        declarations: Location of each resource, by name.
        root: The folder that may be edited, usually the repository's root.

    Raises:
        ShipError: A resource cannot be rewritten safely, is outside `root`, or the source changed
            since the baseline was measured.
    """
    names = candidate.changed_from(baseline)
    if not names:
        raise ShipError("The candidate is the same as the baseline, so there is nothing to ship.")
    root = root.resolve()
    sources: dict[str, SourceFile] = {}
    edits: list[SourceEdit] = []
    for name in sorted(baseline.resources.keys() - set(names)):
        _check_untouched(name, baseline.resources[name], declarations.get(name), root, sources)
    for name in names:
        old, new = baseline.resources.get(name), candidate.resources.get(name)
        if old is None or new is None or kind_of(old) != kind_of(new):
            raise ShipError(f"Resource {name!r} has different kinds in baseline and candidate.")
        declaration = declarations.get(name)
        if declaration is None:
            raise ShipError(f"Resource {name!r} is not declared in the agent's source.")
        if declaration.located_by == "text":
            edits.append(_undeclared_edit(declaration, old, new, root))
            continue
        if declaration.located_by == "file":
            edits.append(file_edit(declaration, old, new, root))
            continue
        target = _target(declaration, root, sources)
        edits += _edits(sources[target.file], target, old, new, root)
    if not edits:
        raise ShipError(f"The candidate changes only comments or layout of {', '.join(names)}.")
    _check_shared(edits, baseline, candidate)
    _check_read_once(edits, declarations, root, sources)
    contents = {edit.target.file: (root / edit.target.file).read_bytes() for edit in edits}
    return apply_edits(edits, contents)


def apply_edits(edits: list[SourceEdit], contents: Mapping[str, bytes]) -> Patch:
    """Apply edits to their files in memory and check the result.

    Args:
        edits: The edits.
        contents: The files that they are for, by path.

    Raises:
        ShipError: The edited file would not hold exactly the new values.
    """
    files: dict[str, tuple[bytes, bytes]] = {}
    for path in sorted({edit.target.file for edit in edits}):
        mine = sorted((e for e in edits if e.target.file == path), key=lambda edit: edit.span)
        for earlier, later in itertools.pairwise(mine):
            if earlier.span[1] > later.span[0]:
                raise ShipError(
                    f"{path}:{later.line}: {earlier.target.name!r} and {later.target.name!r} share"
                    " one literal in the source.",
                    hint="Declare each separately.",
                )
        files[path] = (contents[path], _applied(contents[path], path, mine))
    return Patch(files=files, edits=tuple(edits))


def _applied(data: bytes, path: str, edits: Sequence[SourceEdit]) -> bytes:
    """A file after its edits: of resources found by name, by text, and by keys."""
    by_text = [edit for edit in edits if edit.target.language]
    by_keys = [edit for edit in edits if edit.target.format]
    by_name = [edit for edit in edits if not (edit.target.language or edit.target.format)]
    if by_name:
        source, data = read_source(data, path), _spliced(data, by_name)
        verify(source, data, by_name)
    if by_text:
        moved = [_moved(edit, by_name) for edit in by_text]
        text, data = read_text_source(data, path), _spliced(data, moved)
        verify_literals(text, data, moved)
    if by_keys:
        moved = [_moved(edit, by_text) for edit in by_keys]
        config = ConfigSource(data, path, by_keys[0].target.format)
        data = _spliced(data, moved)
        verify_config(config, data, moved)
    return data


def _spliced(data: bytes, edits: Sequence[SourceEdit]) -> bytes:
    for edit in reversed(edits):
        data = data[: edit.span[0]] + edit.new + data[edit.span[1] :]
    return data


def _moved(edit: SourceEdit, applied: Sequence[SourceEdit]) -> SourceEdit:
    """An edit, moved to a file with other edits already applied."""
    shift = sum(
        len(applied_edit.new) - len(applied_edit.old)
        for applied_edit in applied
        if applied_edit.span < edit.span
    )
    return dataclasses.replace(edit, span=(edit.span[0] + shift, edit.span[1] + shift))


def _check_shared(edits: Sequence[SourceEdit], baseline: Candidate, candidate: Candidate) -> None:
    """Check that a literal found by its text does not also belong to another prompt."""
    for edit in edits:
        for name, resource in baseline.resources.items() if edit.target.language else ():
            if (
                isinstance(resource, PromptTemplate)
                and resource.text == edit.before
                and name != edit.target.name
                and candidate.resources.get(name) == resource
            ):
                raise ShipError(
                    f"{edit.target.file}:{edit.line}: {edit.target.name!r} and {name!r} share one"
                    " literal in the source.",
                    hint="Declare each separately.",
                )


def _target(declaration: Declaration, root: Path, sources: dict[str, SourceFile]) -> PatchTarget:
    name = declaration.name
    # Python uses names such as `<stdin>` for sources without a file.
    if declaration.file is None or declaration.file.startswith("<"):
        raise ShipError(
            f"Resource {name!r} was not declared in a file, so there is nothing to patch.",
            hint="Move its declaration from the notebook or interactive session into a module.",
        )
    path = Path(declaration.file).resolve()
    if not path.is_relative_to(root):
        raise ShipError(
            f"Resource {name!r} is declared in {path}, outside the repository {root}.",
            hint="Only files in the repository can be patched.",
        )
    relative = path.relative_to(root).as_posix()
    if "site-packages" in path.relative_to(root).parts:
        raise ShipError(
            f"Resource {name!r} is declared in an installed package ({relative}).",
            hint="Only the repository's own sources can be patched.",
        )
    if relative not in sources:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ShipError(f"{relative} cannot be read: {error.strerror}.") from None
        sources[relative] = read_source(data, relative)
    return PatchTarget(kind_of(declaration.resource), name, relative, declaration.qualname)


def _check_read_once(
    edits: Sequence[SourceEdit],
    declarations: Mapping[str, Declaration],
    root: Path,
    sources: dict[str, SourceFile],
) -> None:
    """Check that a value read from a file does not also belong to another resource."""
    edited = {(e.target.file, e.target.keys): e for e in edits if e.target.format}
    for declaration in declarations.values() if edited else ():
        if declaration.located_by != "name":
            continue
        try:
            target = _target(declaration, root, sources)
            source = sources[target.file]
            slots = find_slots(source, target.kind, target.name, target.qualname)
        except ShipError:
            continue
        for key in values_of(declaration.resource):
            slot = slots.get(key)
            splat = read_by_splat(source, target, key, root)
            read = read_by(source, slot, root) if slot else splat
            if read is None:
                continue
            place = (read.file.relative_to(root).as_posix(), json.dumps(read.keys))
            edit = edited.get(place)
            if edit and (edit.target.name, edit.key) != (target.name, key):
                raise ShipError(
                    f"{edit.target.file}:{edit.line}: {edit.target.name}.{edit.key} and"
                    f" {target.name}.{key} read the same value.",
                    hint="Give each value its own key.",
                )


def _undeclared_edit(
    declaration: Declaration, before: Resource, after: Resource, root: Path
) -> SourceEdit:
    old, new = literal_text(before), literal_text(after)
    if old is None or new is None:
        raise ShipError(
            f"Resource {declaration.name!r} is neither a prompt nor a model's name: nothing else is"
            " found by its text."
        )
    place = _named_in_script(declaration, root)
    if place is None:
        return literal_edit(undeclared_prompt(declaration, old, new, root), old, new, root)
    _check_shape(f"{place[0]}:{declaration.line}", declaration.name, old, new)
    refusal = f"Prompt {declaration.name!r} cannot be patched:"
    prompt = declared_prompt(
        declaration.name,
        old,
        new,
        expression=place,
        refusal=refusal,
        file=place[0],
        keeps_ends=True,
    )
    return literal_edit(prompt, old, new, root)


def literal_text(resource: Resource) -> PromptTemplate | None:
    """The source text of an undeclared resource; None if it cannot be found by its text."""
    if isinstance(resource, Model):
        return PromptTemplate(resource.model, "plain")
    return resource if isinstance(resource, PromptTemplate) else None


def _named_in_script(declaration: Declaration, root: Path) -> tuple[str, tuple[int, int]] | None:
    """File and bytes of the text of a prompt that a program in JavaScript declares by its name."""
    if declaration.file is None:
        return None
    file = Path(declaration.file).resolve()
    if not file.is_relative_to(root):
        return None
    for prompt in declared_prompts(root, [file]):
        if prompt.name == declaration.name:
            return file.relative_to(root).as_posix(), prompt.span
    return None


def _check_untouched(
    name: str,
    resource: Resource,
    declaration: Declaration | None,
    root: Path,
    sources: dict[str, SourceFile],
) -> None:
    """Check the unchanged resources, because the proof is for all resources as measured."""
    if declaration is None or declaration.located_by == "text":
        return  # A prompt that is known by its text may stand in pieces, or outside the source.
    if not _agree(values_of(declaration.resource), values_of(resource)):
        raise changed_since(f"Resource {name!r}", None)
    if declaration.located_by == "file":
        return  # Its declaration was just read from the file.
    try:
        target = _target(declaration, root, sources)
        source = sources[target.file]
        slots = find_slots(source, target.kind, name, target.qualname)
    except ShipError:
        return  # Unreadable values cannot be compared, and are not edited either.
    for key, value in values_of(resource).items():
        slot = slots.get(key)
        if slot and slot.value is not UNREADABLE and not holds_value(source, slot, value, resource):
            raise changed_since(f"{target.file}:{slot.line}: {name}.{key}", None)


def _agree(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    return left.keys() == right.keys() and all(same_value(left[key], right[key]) for key in left)


def _edits(
    source: SourceFile, target: PatchTarget, old: Resource, new: Resource, root: Path
) -> list[SourceEdit]:
    name = target.name
    slots = find_slots(source, target.kind, name, target.qualname)
    line = declaring_line(source, target.kind, name, target.qualname)
    where = f"{source.path}:{line}"
    before, after = values_of(old), values_of(new)
    _check_shape(where, name, old, new)
    if extra := sorted(slots.keys() - before.keys()):
        raise changed_since(f"{where}: {name!r} has a new {extra[0]!r} and", None)
    edits: list[SourceEdit] = []
    for key in sorted(before.keys() | after.keys()):
        slot = slots.get(key)
        differs = key in after and (key not in before or not same_value(before[key], after[key]))
        if slot is None or key not in before or key not in after:
            if key not in after:
                raise ShipError(
                    f"{where}: the candidate has no {name}.{key}.", hint="Remove it there by hand."
                )
            read = read_by_splat(source, target, key, root)
            if differs and read is not None and key in before:
                as_float = isinstance(before[key], float)
                edits.append(config_edit(read, target, key, old, new, root, as_float=as_float))
                continue
            if differs:
                raise _by_hand(where, name, key, after.get(key), "it is not written out there")
            continue
        if slot.value is not UNREADABLE and not holds_value(source, slot, before[key], old):
            if same_value(slot.value, after[key]):
                raise ShipError(
                    f"{source.path}:{slot.line}: {name}.{key} already holds the candidate's value.",
                    hint="The change seems to be merged; see `ratchet releases`.",
                )
            present = slot.value if target.kind in ("params", "model") else None
            raise changed_since(f"{source.path}:{slot.line}: {name}.{key}", present)
        if not differs:
            continue
        read = read_by(source, slot, root)
        if read is not None and read.format:
            edit = config_edit(read, target, key, old, new, root, as_float=slot.as_float)
            edits.append(edit)
            continue
        if (
            isinstance(old, PromptTemplate)
            and isinstance(new, PromptTemplate)
            and slot.value is UNREADABLE
            and (read is not None or not slot.unclear)
        ):
            edits.append(text_edit(source, slot, name, old, new, root, read))
            continue
        problem = slot.problem
        if problem or slot.value is UNREADABLE:
            at = f"{source.path}:{slot.line}"
            raise _by_hand(at, name, key, _shown(new, key), problem or "it is not a literal")
        edits.append(write_edit(source, target, slot, old, new))
    return edits


def _check_shape(where: str, name: str, old: Resource, new: Resource) -> None:
    if isinstance(old, Params) and isinstance(new, Params):
        ranges = [{key: domain(knob) for key, knob in p.space.items()} for p in (old, new)]
        if ranges[0] != ranges[1]:
            raise ShipError(
                f"{where}: the candidate changes the ranges of {name!r}, not its values."
            )
    if (
        isinstance(old, PromptTemplate)
        and isinstance(new, PromptTemplate)
        and old.engine != new.engine
    ):
        raise ShipError(
            f"{where}: the candidate writes prompt {name!r} for {new.engine}, but the source uses "
            f"{old.engine}.",
            hint="Change the engine in the source by hand first.",
        )
    if isinstance(old, Code) and isinstance(new, Code) and old.function != new.function:
        raise ShipError(f"{where}: the candidate renames function {old.function} of {name!r}.")


def _shown(resource: Resource, key: str) -> Any:
    return resource.source if isinstance(resource, Code) else values_of(resource).get(key)


def _by_hand(where: str, name: str, key: str, value: Any, why: str) -> ShipError:
    text = repr(value)
    if len(text) > 300:
        text = f"{text[:300]}… ({counted(len(str(value)), 'character')})"
    return ShipError(
        f"{where}: {name}.{key} cannot be patched: {why}.",
        hint=f"Write this there by hand: {text}.",
    )


def diff_files(files: Mapping[str, tuple[bytes, bytes]]) -> str:
    """Unified diff of (old, new) contents by path."""
    return "".join(_diff(path, *both) for path, both in sorted(files.items()))


def _diff(path: str, old: bytes, new: bytes) -> str:
    both = [data.decode().split("\n") for data in (old, new)]
    lines = [
        [line + "\n" for line in part[:-1]] + ([part[-1]] if part[-1] else []) for part in both
    ]
    diff_lines: list[str] = []
    for line in difflib.unified_diff(lines[0], lines[1], f"a/{path}", f"b/{path}"):
        diff_lines.append(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        )
    return "".join(diff_lines)
