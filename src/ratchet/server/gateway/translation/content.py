"""Content of messages: text, images and documents, between chat parts and message blocks."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ratchet.observe.model_apis.bounded_json import mapping
from ratchet.server.gateway.translation.features import Findings

_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]+)*;base64,", re.IGNORECASE)
_PDF = "application/pdf"


def listed(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; empty for anything else."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def blocks_of(content: Any, findings: Findings) -> list[dict[str, Any]]:
    """Blocks of a message from the content of a chat message.

    Anthropic accepts no text without a visible character, so such text is omitted.
    """
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return [
        block
        for part in listed(content)
        if (block := _block(part, findings)) and (block["type"] != "text" or block["text"].strip())
    ]


def _block(part: Mapping[str, Any], findings: Findings) -> dict[str, Any] | None:
    kind = part.get("type")
    if "prompt_cache_breakpoint" in part:
        findings.leave_out("prompt_cache_breakpoint")
    if kind in ("text", "refusal"):
        return {"type": "text", "text": str(part.get(kind) or "")}
    if kind == "image_url":
        image = mapping(part.get("image_url"))
        if image.get("detail") not in (None, "auto"):
            findings.leave_out("image_url.detail")
        return {"type": "image", "source": _source(str(image.get("url") or ""))}
    if kind == "file":
        return _document(mapping(part.get("file")), findings)
    advice = "send text, images or PDFs"
    findings.refuse(f"content of the type {str(kind)[:40]}", advice)
    return None


def _source(url: str) -> dict[str, Any]:
    inline = _DATA_URL.match(url)
    if inline is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": inline[1], "data": url[inline.end() :]}


def _document(file: Mapping[str, Any], findings: Findings) -> dict[str, Any] | None:
    title = {"title": file["filename"]} if isinstance(file.get("filename"), str) else {}
    if url := file.get("file_url"):
        return {"type": "document", "source": {"type": "url", "url": url}, **title}
    content = str(file.get("file_data") or "")
    if not content:
        findings.refuse("a file by its id", "send its content as `file_data`")
        return None
    inline = _DATA_URL.match(content)
    media_type = inline[1] if inline else _PDF
    content = content[inline.end() :] if inline else content
    if media_type == _PDF:
        source = {"type": "base64", "media_type": _PDF, "data": content}
    elif media_type.startswith("text/"):
        try:
            text = base64.b64decode(content).decode()
        except (binascii.Error, UnicodeDecodeError):
            findings.refuse("a file of text that is not UTF-8 in base64")
            return None
        source = {"type": "text", "media_type": "text/plain", "data": text}
    else:
        findings.refuse(f"a file of the type {media_type[:40]}", "send text, images or PDFs")
        return None
    return {"type": "document", "source": source, **title}


def parts_of(content: Any, findings: Findings) -> list[dict[str, Any]]:
    """Parts of a chat message from an Anthropic message's content, without the results of tools."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return [part for block in listed(content) for part in _parts(block, findings)]


def _parts(block: Mapping[str, Any], findings: Findings) -> list[dict[str, Any]]:
    kind = block.get("type")
    source = mapping(block.get("source"))
    if block.get("cache_control"):
        findings.leave_out("cache_control")
    if kind == "text":
        if block.get("citations"):
            findings.leave_out("citations")
        return [text_part(str(block.get("text") or ""))]
    if kind == "image" and source.get("type") in ("base64", "url"):
        url = str(source.get("url") or _data_url(source))
        return [{"type": "image_url", "image_url": {"url": url}}]
    if kind == "document":
        if mapping(block.get("citations")).get("enabled"):
            findings.refuse("citations")
        heading = [text_part(str(block["context"]))] if block.get("context") else []
        title = block.get("title")
        if source.get("type") == "base64":
            file = {"filename": title or "document.pdf", "file_data": _data_url(source)}
            return [*heading, {"type": "file", "file": file}]
        if source.get("type") in ("text", "content"):
            if title:
                heading.insert(0, text_part(str(title)))
            inner = source.get("data") if source["type"] == "text" else source.get("content")
            return [*heading, *parts_of(inner, findings)]
    advice = "send its content in the request" if source else "leave it out"
    form = f" by {source.get('type')}" if source else ""
    findings.refuse(f"content of the type {str(kind)[:40]}{form}", advice)
    return []


def text_part(text: str) -> dict[str, Any]:
    """A part of a chat message, or a block of a message: both write text alike."""
    return {"type": "text", "text": text}


def simplest(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Content of a chat message; a lone text as a string, since some servers accept no parts."""
    if not parts:
        return ""
    return str(parts[0]["text"]) if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _data_url(source: Mapping[str, Any]) -> str:
    return f"data:{source.get('media_type')};base64,{source.get('data')}"


def json_bytes(value: Any) -> bytes:
    """JSON of a decoded value, which may hold a lone surrogate: only escapes can write it."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, default=lambda raw: json.loads(bytes(raw))).encode()


def json_text(value: Any) -> str:
    """Like `json_bytes`, as a string."""
    return json_bytes(value).decode()
