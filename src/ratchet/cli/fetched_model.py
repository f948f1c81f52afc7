"""Finds a local model for a command, and fetches it with a progress bar if it is missing."""

from __future__ import annotations

from ratchet.cli.byte_bar import byte_bar
from ratchet.cli.errors import err
from ratchet.models import ModelFile, find_model
from ratchet.models.box import BOX
from ratchet.models.model_file import boxed_name


def find_with_bar(name: str) -> ModelFile:
    """Find a model as `find_model` does, with a bar for the download.

    Raises:
        ModelUnavailable: As `find_model`.
    """

    def say(text: str) -> None:
        err.print(text, markup=False, soft_wrap=True)

    boxed = BOX.get(boxed_name(name) or "")
    if boxed is None or boxed.is_fetched or not err.is_terminal:
        return find_model(name, say)
    with byte_bar() as bar:
        task = bar.add_task(boxed.name, total=boxed.bytes)
        return find_model(name, say, on_bytes=lambda fetched: bar.update(task, completed=fetched))
