"""Removes a wiring's changes from a file that may have been edited since."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from ratchet.types import ShipError

_TIMEOUT_S = 30.0


class EditedSince(Exception):
    """A file was edited where the wiring had changed it; the message is a clause."""


def taken_out(current: bytes | None, before: bytes | None, after: bytes) -> bytes | None:
    """A file without the wiring's changes; None if the wiring had created it.

    Args:
        current: The file as it is; None if it is gone.
        before: As it was before the wiring; None if the wiring created it.
        after: As the wiring wrote it.

    Raises:
        EditedSince: It cannot be told what is the wiring's. A created file that was edited in any
            way is the user's.
    """
    if current is None or current == before:
        return current
    if current == after:
        return before
    if before is None:
        raise EditedSince("it has been edited since; delete it if you no longer need it")
    with tempfile.TemporaryDirectory(prefix="ratchet-undo-") as folder:
        for name, data in {"current": current, "after": after, "before": before}.items():
            (Path(folder) / name).write_bytes(data)
        try:
            merge = subprocess.run(
                ["git", "merge-file", "-p", "-q", "current", "after", "before"],
                cwd=folder,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            raise ShipError(
                "git is not installed, or is not on PATH.", hint="Install git and run this again."
            ) from None
        except subprocess.TimeoutExpired:
            raise EditedSince("separating its edits from the wiring's took too long") from None
    if merge.returncode:
        raise EditedSince("it was edited where the wiring had changed it")
    return merge.stdout
