"""Code cells of notebooks, as one text."""

from __future__ import annotations

import json
import re

_MAGIC = re.compile(r"^(\s*)(?:[%!?]|[\w., ]+=\s*[!%]).*$", re.MULTILINE)


def code_of(text: str) -> str | None:
    """Code cells of a notebook, joined; None if it is no notebook, or in another language.

    Lines of magics and shell commands become comments, so that the others parse.
    """
    try:
        data = json.loads(text)
        language = data.get("metadata", {}).get("kernelspec", {}).get("language", "python")
        cells = data.get("cells")
        if cells is None:  # nbformat 3
            cells = [cell for sheet in data["worksheets"] for cell in sheet["cells"]]
        if str(language).lower() != "python":
            return None
        codes = []
        for cell in cells:
            if cell.get("cell_type") != "code":
                continue
            source = cell.get("source", cell.get("input", ""))
            code = "".join(source) if isinstance(source, list) else str(source)
            if code.lstrip().startswith("%%") and not code.lstrip().startswith(
                ("%%time", "%%capture")
            ):
                code = "\n".join("# " + line for line in code.splitlines())
            codes.append(_MAGIC.sub(lambda found: f"{found.group(1)}pass", code))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return "\n".join(codes) + "\n"
