"""Carry the change of a release, or its reverse, to another commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ratchet.ship.commit import SlotChange, slots_at
from ratchet.ship.edit import SourceEdit
from ratchet.ship.patch import apply_edits
from ratchet.ship.repository import Blob, Repository
from ratchet.source.literals.data_values import same_value
from ratchet.types import Release, ShipError


def carried(
    repository: Repository,
    onto: str,
    release: Release,
    changes: Sequence[SlotChange],
    direction: Literal["forward", "back"],
) -> dict[str, Blob]:
    """The files of a commit with a release's change applied or reverted.

    Only the resources' own spans change. They must be as the release left them, to take it back,
    or as they were before it, to make it.

    Args:
        repository: The repository.
        onto: Full hash of the commit.
        release: The release.
        changes: What its commit changes.
        direction: `forward` makes the change, `back` takes it back.

    Raises:
        ShipError: A span is not as expected; the message names it.
    """
    contents: dict[str, bytes] = {}
    edits: list[SourceEdit] = []
    for change in changes:
        target = change.target
        if direction == "forward":
            present, (wanted, new), known_by = change.base[1], change.commit, target.before
        else:
            present, (wanted, new), known_by = change.commit[1], change.base, target.after
        place = slots_at(repository, onto, target, known_by).get(change.key)
        what = f"{target.file}: {target.name}.{change.key}"
        value = place[1].value if place else None
        if place is None or not same_value(value, present.value) or place[1].problem:
            if direction == "forward":
                raise ShipError(
                    f"{what} differs in {onto[:12]}; the proof is for the old source.",
                    hint="Update your work tree, then prove it again with `ratchet improve`.",
                )
            raise ShipError(
                f"{what} changed since release {release.id[:12]}, so it is not rolled back.",
                hint=f"Write this there by hand: {wanted.text(new.span)[:300]}",
            )
        source, slot = place
        contents[target.file] = source.data
        text = wanted.text(new.span).replace("\r\n", "\n").replace("\n", source.newline)
        edits.append(
            SourceEdit(
                target=target,
                key=change.key,
                span=slot.span,
                line=slot.line,
                old=source.data[slot.span[0] : slot.span[1]],
                new=text.encode(),
                before=value,
                after=new.value,
                reads=new.value,
            )
        )
    left, right = release.base, release.commit
    if direction == "back":
        left, right = right, left
    blobs: dict[str, Blob] = {}
    for path, (_, data) in apply_edits(edits, contents).files.items():
        # If nothing else is different there, the file is the same byte for byte.
        if repository.blob(onto, path) == repository.blob(left, path):
            data = repository.content(right, path) or data
        old = repository.blob(onto, path)
        assert old is not None
        blobs[path] = Blob(old.mode, repository.store_blob(data, None))
    return blobs
