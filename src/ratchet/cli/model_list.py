"""Lists models for `ratchet model`: those that can be fetched, and those in other caches."""

from __future__ import annotations

from typing import Any

from ratchet.cli.console import display_path, out, print_json, printable, table
from ratchet.cli.errors import err
from ratchet.models.box import BOX
from ratchet.models.caches import cached_models, files_of
from ratchet.models.memory import as_megabytes


def list_models(json: bool) -> None:
    """Print the models that can be used by name."""
    boxed: list[dict[str, Any]] = [
        {
            "name": model.name,
            "title": model.title,
            "licence": model.licence,
            "bytes": model.bytes,
            "path": str(model.path) if model.is_fetched else None,
        }
        for model in BOX.values()
    ]
    cached: list[dict[str, Any]] = [
        {
            "name": model.full_name,
            "bytes": sum(part.stat().st_size for part in files_of(model.path)),
            "path": str(model.path),
        }
        for model in cached_models()
    ]
    if json:
        print_json({"box": boxed, "caches": cached})
        return
    rows = table("model", "size", "where", right=("size",))
    for model in boxed:
        where = display_path(model["path"]) if model["path"] else "fetched on first use"
        rows.add_row(model["name"], as_megabytes(model["bytes"]), where)
    for model in cached:
        rows.add_row(
            printable(model["name"]), as_megabytes(model["bytes"]), display_path(model["path"])
        )
    out.print(rows)
    if not cached:
        err.print("There is no model in the cache of Ollama or Hugging Face.", style="dim")
    err.print(
        "Serve one: ratchet model NAME. In ratchet.toml: "
        f'model = "local:{boxed[-1]["name"]}" under \\[agent] or \\[coach].',
        style="dim",
        soft_wrap=True,
    )
