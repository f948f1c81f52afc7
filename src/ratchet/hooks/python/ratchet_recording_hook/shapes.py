"""Which requests are model calls: known by their shape, not by a list of hosts."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

_TEXT_KEYS = ("prompt", "input", "inputs", "message", "inputText")
_BESIDE = ("model", "parameters", "max_tokens", "temperature", "stream", "textGenerationConfig")
_COUNTING = ("/count_tokens", "/input_tokens", ":countTokens", "/tokenize", "/moderations")


def is_model_request(path: str, body: Any) -> bool:
    """Whether a POST asks a model.

    Args:
        path: Below the host.
        body: Its decoded JSON.
    """
    if not isinstance(body, dict) or path.endswith(_COUNTING):
        return False
    messages = body.get("messages")
    if isinstance(messages, list) and messages:
        return all(isinstance(message, dict) and "role" in message for message in messages)
    contents = body.get("contents")
    if contents and ("enerateContent" in path or isinstance(contents, (list, dict))):
        parts = contents if isinstance(contents, list) else [contents]
        return all(isinstance(part, dict) and "parts" in part for part in parts)
    if "embed" in path.lower() and any(key in body for key in ("input", "content", "requests")):
        return True
    texts = any(isinstance(body.get(key), (str, list)) for key in _TEXT_KEYS)
    return texts and any(key in body for key in _BESIDE)


def place_of(url: str) -> str:
    """Host of a URL in lower case, with the port where it is not the scheme's usual one."""
    try:
        place = urlsplit(url)
        host, port = place.hostname or "", place.port
    except ValueError:
        return ""
    host = f"[{host}]" if ":" in host else host
    return (
        host if port in (None, {"http": 80, "https": 443}.get(place.scheme)) else f"{host}:{port}"
    )


def about_models(path: str) -> bool:
    """Whether a path asks which models there are, or what a request to one would take."""
    path = path.rstrip("/")
    if path.endswith(_COUNTING):
        return True
    return path.endswith(("/models", "/api/tags", "/api/show", "/api/version")) or (
        "/v1/models/" in path and ":" not in path
    )
