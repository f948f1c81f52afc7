"""The environment of a recorded command: the hooks, and base URLs that lead to the relay."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ratchet import hooks
from ratchet.hooks.python.ratchet_recording_hook.values import is_secret_name
from ratchet.run.model_hosts import javascript_hook
from ratchet.run.model_relay import ModelRelay
from ratchet.source.dotenv import read_dotenv
from ratchet.source.files import own_files
from ratchet.worker.environment import dialect_of

_HOOKS = Path(hooks.__file__).parent
PYTHON_HOOK = _HOOKS / "python"
NODE_HOOK = _HOOKS / "node" / "recording_hook.cjs"

PROVIDERS = {
    "OPENAI_BASE_URL": "https://api.openai.com/v1",
    "OPENAI_API_BASE": "https://api.openai.com/v1",
    "ANTHROPIC_BASE_URL": "https://api.anthropic.com",
    "GOOGLE_GEMINI_BASE_URL": "https://generativelanguage.googleapis.com",
}
"""Variables that the providers' libraries read in any language, with their usual values."""

_OTHERS = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL")

_BASE_URL = re.compile(r"(?:URL|API_BASE|BASE_PATH|ENDPOINT|OLLAMA_HOST)$")
"""Names of variables whose value may be the address of a model. Any other variable that holds an
address leads through the relay as well, which passes on everything that is not a model call."""

_WITH_PASSWORD = re.compile(r"https?://[^/]*@")
_DEFAULT = re.compile(
    r"\b([A-Z][A-Z0-9_]*(?:BASE_URL|API_BASE|API_URL|ENDPOINT))\b.{0,120}?(https?://[\w.:-]+[\w./-]*)",
    re.DOTALL,
)
_NO_SOURCE = frozenset(
    {
        *(".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx"),  # their hooks see all
        *(".md", ".rst", ".txt", ".json", ".lock", ".yml", ".yaml", ".toml", ".html", ".css"),
    }
)
MAX_FILES = 5_000
MAX_BYTES = 200_000
_SHORTEST = 8


class RunEnvironment:
    """The environment of the command's processes.

    Args:
        root: The repository's folder.
        folder: Of the recording.
        relay: The running relay.
        variables: Besides the environment of this process.
        simulated: Whether the simulated model answers.
    """

    def __init__(
        self,
        root: Path,
        folder: Path,
        relay: ModelRelay,
        variables: Mapping[str, str],
        *,
        simulated: bool,
    ) -> None:
        self.owner = {**os.environ, **variables}
        self.dotenv = read_dotenv(root)
        environ = {**self.dotenv, **self.owner}
        self.set = {
            name: value
            for name, value in environ.items()
            if value.startswith(("http://", "https://"))
            and _BASE_URL.search(name)
            and not _WITH_PASSWORD.match(value)
        }
        self.bases = {**PROVIDERS, **_stated_bases(root), **self.set}
        settings: dict[str, Any] = {
            "root": str(root),
            "relay": relay.url,
            "simulated": simulated,
            "set": {
                name: (relay.address_of(base), self.owner.get(name))
                for name, base in self.bases.items()
            },
            "hooks": _hooks(self.owner, folder),
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        self.hooks: dict[str, str] = settings["hooks"]
        self.providers = {name: relay.address_of(self.bases[name]) for name in _OTHERS}
        """Base URLs for programs in languages without a hook."""
        paths = self.owner.get("PYTHONPATH", "").split(os.pathsep)
        self.variables = {
            **self.owner,
            **{name: value for name, (value, _) in settings["set"].items()},
            **settings["hooks"],
            # The project's folder stays as it is: only what the agent itself writes is a trace.
            "PYTHONDONTWRITEBYTECODE": self.owner.get("PYTHONDONTWRITEBYTECODE", "1"),
            "PYTHONPATH": os.pathsep.join([str(PYTHON_HOOK), *filter(None, paths)]),
            **_no_proxy(self.owner),
        }
        self.secrets = {
            name: value
            for name, value in environ.items()
            if len(value) >= _SHORTEST and is_secret_name(name)
        }

    def without_secrets(self, value: Any) -> Any:
        """A copy of JSON with the values of secret variables replaced by their names."""
        if isinstance(value, str):
            for name, secret in self.secrets.items():
                value = value.replace(secret, f"[redacted:{name}]")
            return value
        if isinstance(value, list):
            return [self.without_secrets(part) for part in value]
        if isinstance(value, dict):
            return {key: self.without_secrets(part) for key, part in value.items()}
        return value

    def leading(self, urls: Iterable[str]) -> tuple[str, ...]:
        """The owner's own variables that stand for addresses that were called."""
        called = list(urls)
        return tuple(
            name
            for name, base in self.bases.items()
            if name not in PROVIDERS and any(url.startswith(base.rstrip("/")) for url in called)
        )

    def standing_for(self, url: str, dialect: str) -> tuple[str, ...]:
        """The variables that are set to a call's address, by dialect."""
        return tuple(
            name
            for name, base in self.set.items()
            if f"{url.partition('?')[0]}/".startswith(base.rstrip("/") + "/")
            and (name not in PROVIDERS or dialect.startswith(dialect_of(name)))
        )


def _stated_bases(root: Path) -> dict[str, str]:
    """Default base URLs of variables, by variable, in the source of languages without a hook."""
    bases: dict[str, str] = {}
    for file in own_files(root)[:MAX_FILES]:
        if file.suffix in _NO_SOURCE or file.stat().st_size > MAX_BYTES:
            continue
        for name, url in _DEFAULT.findall(file.read_text(errors="replace")):
            bases.setdefault(name, url)
    return bases


def _hooks(owner: Mapping[str, str], folder: Path) -> dict[str, str]:
    return {
        "RATCHET_RECORDING": str(folder),
        "PYTHONPATH": str(PYTHON_HOOK),
        **javascript_hook(NODE_HOOK, owner),
    }


def _no_proxy(owner: Mapping[str, str]) -> dict[str, str]:
    """Variables that exempt the relay from the owner's proxy."""
    if not any(name.lower() in ("http_proxy", "all_proxy") for name in owner):
        return {}
    before = owner.get("NO_PROXY") or owner.get("no_proxy") or ""
    hosts = ",".join(filter(None, [before, "127.0.0.1"]))
    return {"NO_PROXY": hosts, "no_proxy": hosts}
