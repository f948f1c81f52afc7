"""Writes the server's OpenAPI document to openapi.json; the page's types come from it."""

import json
from pathlib import Path

from ratchet.server.api import GROUPS
from ratchet.server.openapi import describe


def document() -> str:
    """The document as it stands in openapi.json."""
    described = describe([route for group in GROUPS for route in group.routes])
    described["info"]["version"] = "0"  # a new version of Ratchet changes no type
    return json.dumps(described, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("openapi.json").write_text(document(), encoding="utf-8")
