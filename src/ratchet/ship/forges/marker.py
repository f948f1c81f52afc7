"""The hidden marker in a pull request's body: the release, and what was last written."""

from __future__ import annotations

import re

import msgspec

from ratchet.types import content_hash

_BLOCK = re.compile(
    r"<!-- ratchet:begin (?P<json>\{[^\n]*\}) -->(?P<text>.*?)<!-- ratchet:end -->", re.S
)


class RequestMarker(msgspec.Struct, frozen=True, kw_only=True):
    """Ratchet's own data about a pull request, stored in its body."""

    release: str
    """Id of the release, or of the one that is reverted."""
    candidate: str
    resources: tuple[str, ...]
    """Names of the resources that it changes."""
    base: str
    """Full hash of the commit that the branch starts from."""
    head: str
    """Full hash of the tip that was pushed last."""
    content: str = ""
    """Hash of the text, to tell whether it must be written again."""


def marked(text: str, marker: RequestMarker) -> str:
    """The text between its markers."""
    stamped = msgspec.structs.replace(marker, content=content_hash([text]))
    # Two hyphens would end the comment.
    data = msgspec.json.encode(stamped).decode().replace("--", "-\\u002d")
    return f"<!-- ratchet:begin {data} -->\n{text.strip()}\n<!-- ratchet:end -->\n"


def marker_of(body: str) -> RequestMarker | None:
    """The marker of a body; None when it has none that can be read."""
    match = _BLOCK.search(body)
    if match is None:
        return None
    try:
        return msgspec.json.decode(match["json"], type=RequestMarker)
    except msgspec.MsgspecError:
        return None


def rewritten(body: str, block: str) -> str | None:
    """The body with its marked part replaced; None if that part is unchanged, or gone."""
    before, after = marker_of(body), marker_of(block)
    if before is None or after is None or before == after:
        return None
    return _BLOCK.sub(lambda _: block.strip(), body, count=1)
