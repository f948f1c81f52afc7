"""The dashboard's page: built files from `dashboard/`, served beside the API."""

from __future__ import annotations

import gzip
import mimetypes
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ratchet._asgi import HeaderList, Headers

FOLDER = Path(__file__).parent / "static"
"""The built page: in the wheel, and in a checkout after `make dashboard`."""

NONCE = b"RATCHET_NONCE"
"""Stands for the nonce in the built index.html."""

ROOT = b'name="ratchet-root" content=""'
"""Placeholder in the built index.html for the path that the server is under."""

API = ("/v1/", "/gateway/", "/healthz", "/readyz", "/metrics", "/openapi.json")
"""Prefixes of paths that never belong to the page."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src-elem 'self' 'nonce-{nonce}';"
    " style-src-attr 'none'; img-src 'self' data:; font-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Content-Security-Policy: scripts are files of ours, and nothing comes from another origin."""

MEDIA_TYPES = {".woff2": "font/woff2"}
"""Media types of suffixes that not every machine knows."""

FIXED = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
]

UNBUILT = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Ratchet</title>
<p>The dashboard has not been built in this checkout. Build it: <code>make dashboard</code>.</p>
<p>The API is here: <a href="/openapi.json">openapi.json</a>. The command line shows the same as the
dashboard: <code>ratchet status</code>.</p></html>
"""


class PageFile(msgspec.Struct, frozen=True):
    """One response of the page."""

    headers: HeaderList
    content: bytes


class _Built(msgspec.Struct):
    media_type: bytes
    plain: bytes
    packed: bytes


class Dashboard:
    """Answers requests of browsers for the page and its files.

    Args:
        folder: Folder of the built page.
        root_path: Path under which a proxy has the server; empty for none.
    """

    def __init__(self, folder: Path = FOLDER, root_path: str = "") -> None:
        self._folder = folder
        self._root_path = root_path.encode()
        self._files: dict[str, _Built] | None = None

    def find(self, scope: Mapping[str, Any]) -> PageFile | None:
        """The response to a request that matches no route of the API.

        If a path is not a file, a request from a browser's address bar gets the page itself, which
        knows its own addresses; so does any request for "/". Files are read once.

        Args:
            scope: The request's ASGI scope.

        Returns:
            The response; None when the request is not for the page.
        """
        path: str = scope["path"]
        if scope["method"] not in ("GET", "HEAD") or path.startswith(API):
            return None
        headers = scope["headers"]
        files = self._read()
        built = files.get(path.lstrip("/"))
        if built is not None and path != "/index.html":
            forever = path.startswith("/assets/")
            cache = b"public, max-age=31536000, immutable" if forever else b"no-cache"
            return _sent(built.media_type, built.plain, built.packed, cache, headers)
        if path != "/" and not _wants_html(headers):  # nobody but a person asks for "/"
            return None
        index = files.get("index.html")
        nonce = secrets.token_urlsafe(18).encode()
        content = UNBUILT if index is None else self._rooted(index.plain).replace(NONCE, nonce)
        page = _sent(b"text/html; charset=utf-8", content, b"", b"no-store", headers)
        policy = POLICY.format(nonce=nonce.decode()).encode()
        page.headers.append((b"content-security-policy", policy))
        return page

    def _rooted(self, page: bytes) -> bytes:
        """The page with the addresses of its files, which are relative in the build."""
        root = self._root_path
        page = page.replace(b'="./', b'="' + root + b"/")
        return page.replace(ROOT, ROOT.replace(b'""', b'"' + root + b'"'))

    def _read(self) -> dict[str, _Built]:
        if self._files is None:
            files = {}
            for path in sorted(self._folder.rglob("*")) if self._folder.is_dir() else ():
                if path.is_file() and not path.is_symlink():
                    known = MEDIA_TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0]
                    media_type = known or "application/octet-stream"
                    plain = path.read_bytes()
                    name = path.relative_to(self._folder).as_posix()
                    packed = gzip.compress(plain, 9) if len(plain) > 1_000 else b""
                    files[name] = _Built(media_type.encode(), plain, packed)
            self._files = files
        return self._files


def _sent(
    media_type: bytes,
    plain: bytes,
    packed: bytes,
    cache: bytes,
    headers: Headers,
) -> PageFile:
    answer: HeaderList = [(b"content-type", media_type), (b"cache-control", cache), *FIXED]
    accepted = next((value for name, value in headers if name == b"accept-encoding"), b"")
    if packed:
        answer.append((b"vary", b"accept-encoding"))
        if b"gzip" in accepted:
            return PageFile([*answer, (b"content-encoding", b"gzip")], packed)
    return PageFile(answer, plain)


def _wants_html(headers: Headers) -> bool:
    return any(name == b"accept" and b"text/html" in value for name, value in headers)
