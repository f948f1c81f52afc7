"""A small OpenID Connect provider on loopback, which lies on request."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "ratchet", "a secret"
FIRST = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})


class Provider:
    """Answers as a provider does; whoever comes is logged in.

    `claims` overrides what the ID token says, None takes a claim away; `alg` and `key` sign it;
    `profile` is what the userinfo endpoint answers; `fails` are paths that answer with 500.
    """

    def __init__(self) -> None:
        self.key = FIRST
        self.shown: list[RSAKey] = [self.key]
        self.alg = "RS256"
        self.claims: dict[str, Any] = {}
        self.profile: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.fails: set[str] = set()
        self.asked: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider._answer(self, "")

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                provider._answer(self, self.rfile.read(length).decode())

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler, body: str) -> None:
        parts = urlsplit(request.path)
        self.asked.append(parts.path)
        query = {name: values[0] for name, values in parse_qs(parts.query or body).items()}
        if parts.path in self.fails:
            return self._send(request, 500, {})
        if parts.path == "/authorize":
            code = secrets.token_hex(8)
            self._codes[code] = query
            back = urlencode({"code": code, "state": query["state"]})
            request.send_response(302)
            request.send_header("location", f"{query['redirect_uri']}?{back}")
            return request.end_headers()
        if parts.path == "/token":
            return self._token(request, query)
        if parts.path == "/keys":
            keys = [key.as_dict(private=False) for key in self.shown]
            return self._send(request, 200, {"keys": keys})
        if parts.path == "/profile":
            return self._send(request, 200, self.profile)
        found = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "userinfo_endpoint": f"{self.url}/profile",
        }
        return self._send(request, 200, found | self.metadata)

    def _token(self, request: BaseHTTPRequestHandler, form: dict[str, str]) -> None:
        begun = self._codes.pop(form.get("code", ""), None)
        basic = base64.b64encode(f"{CLIENT}:{SECRET.replace(' ', '%20')}".encode()).decode()
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            begun is None
            or begun["code_challenge"] != challenge
            or begun["redirect_uri"] != form["redirect_uri"]
            or request.headers.get("authorization") != f"Basic {basic}"
        ):
            return self._send(request, 400, {"error": "invalid_grant"})
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "sub": "17",
            "nonce": begun["nonce"],
            "iat": now,
            "exp": now + 300,
            "email": "Ann@Example.com",
            "email_verified": True,
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        if self.alg == "none":
            parts = ({"alg": "none"}, claims)
            encoded = [
                base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode()
                for each in parts
            ]
            token = ".".join([*encoded, ""])
        else:
            token = jwt.encode(
                {"alg": self.alg, "kid": self.key.kid}, claims, self.key, algorithms=[self.alg]
            )
        self._send(request, 200, {"access_token": "access", "id_token": token})

    def _send(self, request: BaseHTTPRequestHandler, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        request.send_response(status)
        request.send_header("content-type", "application/json")
        request.send_header("content-length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)
