"""Environment of an agent's process: hidden variables, the gateway, and the binding file."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec

from ratchet.bind import BINDING_VARIABLE, Binding
from ratchet.observe import BLOCKED_SUFFIX
from ratchet.observe.ids import traceparent
from ratchet.observe.model_apis import MODEL_APIS, DialectName
from ratchet.types import Claim, Outcome
from ratchet.worker.attempt import blocked

SECRETS = frozenset({"RATCHET_KEY"})
"""Variables hidden from every agent's process: the API key of its runner."""

STORE_SECRETS = SECRETS | {"RATCHET_STORE"}
"""The same variables and the store's URL, which may contain a password."""

PROVIDER_KEYS = frozenset({"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"})
"""Providers' API keys, hidden if there is a gateway, which has its own keys."""

NO_TOKEN = "ratchet"  # noqa: S105 - a placeholder
"""API key for a gateway that requires none, since the providers' libraries need a value."""

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def without(environ: Mapping[str, str], *names: frozenset[str]) -> dict[str, str]:
    """Copy an environment without some variables."""
    hidden = frozenset().union(*names)
    return {name: value for name, value in environ.items() if name not in hidden}


BASE_URLS = ("OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL")
"""Variables from which the providers' libraries read the address of their model."""


def gateway_variables(
    server: str, claim: Claim, base_urls: Sequence[str] = (), keys: Sequence[str] = ()
) -> dict[str, str]:
    """Variables that direct the providers' libraries to the gateway, scoped to an attempt.

    Args:
        server: The server's URL.
        claim: The attempt; its token is the API key.
        base_urls: As in `client_variables`.
        keys: As in `client_variables`.
    """
    urls = gateway_urls(server, attempt_name(claim))
    return client_variables(urls, claim.token or NO_TOKEN, base_urls, keys)


def client_variables(
    urls: Mapping[DialectName, str],
    key: str,
    base_urls: Sequence[str] = (),
    keys: Sequence[str] = (),
) -> dict[str, str]:
    """Variables from which the providers' libraries read their base URL and API key.

    Args:
        urls: The base URLs.
        key: The API key.
        base_urls: Further variables for the base URL: of the provider that the name says, else
            OpenAI's.
        keys: Further variables for the API key.
    """
    return {
        "OPENAI_BASE_URL": urls["openai"],
        "OPENAI_API_BASE": urls["openai"],
        "OPENAI_API_KEY": key,
        "ANTHROPIC_BASE_URL": urls["anthropic"],
        "ANTHROPIC_API_KEY": key,
        "GOOGLE_GEMINI_BASE_URL": urls["gemini"],
        **{name: address_for(name, urls[dialect_of(name)]) for name in base_urls},
        **dict.fromkeys(keys, key),
    }


def address_for(variable: str, base_url: str, environ: Mapping[str, str] | None = None) -> str:
    """The value of a variable: the base URL, with an operation if the owner's value has one.

    Args:
        variable: Its name.
        base_url: The base URL.
        environ: The owner's environment; that of this process by default.
    """
    operation = operation_path((os.environ if environ is None else environ).get(variable, ""))
    version = "/v1" if operation and dialect_of(variable) == "anthropic" else ""
    return f"{base_url}{version}/{operation}" if operation else base_url


def operation_path(address: str) -> str:
    """The operation at the end of a URL, such as chat/completions; empty for a base URL."""
    path = address.partition("?")[0].rstrip("/")
    operations = (operation for _, operation in MODEL_APIS if path.endswith(f"/{operation}"))
    return max(operations, key=len, default="")


def gateway_urls(server: str, attempt: str) -> dict[DialectName, str]:
    """Base URLs for the providers' libraries, at the gateway.

    Args:
        server: The server's URL.
        attempt: The attempt, by name or by token.
    """
    gateway = f"{server}/gateway/{quote(attempt, safe='@:')}"
    # The other libraries add the rest themselves.
    return {
        "openai": f"{gateway}/openai/v1",
        "anthropic": f"{gateway}/anthropic",
        "ollama": f"{gateway}/ollama",
        "gemini": f"{gateway}/gemini",
    }


def attempt_name(claim: Claim) -> str:
    """Name of an attempt, as in the gateway's paths."""
    return f"{claim.rollout.id}@{claim.fence}"


def dialect_of(variable: str) -> DialectName:
    """API dialect of the provider in a variable's name; OpenAI's if it names none."""
    for dialect, words in _WORDS.items():
        if any(word in variable.upper() for word in words):
            return dialect
    return "openai"


_WORDS: dict[DialectName, tuple[str, ...]] = {
    "ollama": ("OLLAMA",),
    "anthropic": ("ANTHROPIC", "CLAUDE"),
    "gemini": ("GEMINI", "GOOGLE", "VERTEX"),
}


def model_variables(base_url: str, key: str) -> dict[str, str]:
    """Variables that direct OpenAI's libraries to a model."""
    return {"OPENAI_BASE_URL": base_url, "OPENAI_API_BASE": base_url, "OPENAI_API_KEY": key}


@contextmanager
def variables_set(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of this process temporarily."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def trace_variables(environ: Mapping[str, str], server: str, claim: Claim) -> dict[str, str]:
    """Variables that make the agent's own OpenTelemetry spans part of the attempt's trace.

    The spans are exported to the server, unless the environment names another endpoint.

    Args:
        environ: The current environment.
        server: The server's URL; empty for none.
        claim: The attempt.
    """
    rollout = claim.rollout
    variables = {"TRACEPARENT": traceparent(rollout.id, claim.fence)}
    if not server or any(environ.get(name) for name in ENDPOINTS):
        return variables
    labels = f"ratchet.rollout.id={quote(rollout.id)},ratchet.attempt={claim.fence}"
    before = environ.get("OTEL_RESOURCE_ATTRIBUTES", "").strip().rstrip(",")
    variables |= {
        "OTEL_EXPORTER_OTLP_ENDPOINT": server,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_RESOURCE_ATTRIBUTES": f"{before},{labels}" if before else labels,
    }
    if claim.token:
        variables["OTEL_EXPORTER_OTLP_HEADERS"] = f"authorization=Bearer%20{quote(claim.token)}"
    # The server accepts traces only.
    for signal in ("OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"):
        if not environ.get(signal):
            variables[signal] = "none"
    return variables


def binding_file_name(pid: int) -> str:
    """Name of the file with the binding of a process's attempt."""
    return f"binding-{pid}.json"


class BindingFile:
    """File through which an agent's child processes inherit its binding.

    A context manager; the file is deleted at its end.

    Args:
        folder: Folder of the file, which is named after this process.
    """

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / binding_file_name(os.getpid())
        self._blocked = self._path.with_name(self._path.name + BLOCKED_SUFFIX)

    def __enter__(self) -> BindingFile:
        return self

    def publish(self, binding: Binding) -> None:
        """Let child processes that start from now on inherit this binding."""
        try:
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                file.write(msgspec.json.encode(binding))
            os.replace(file.name, self._path)
        except OSError as error:
            print(
                f"ratchet: child processes will not inherit the candidate: {error}", file=sys.stderr
            )
            self._path.unlink(missing_ok=True)
        # Even without the file the variable marks child processes as part of a rollout.
        os.environ[BINDING_VARIABLE] = str(self._path)

    def judge(self, outcome: Outcome) -> Outcome:
        """The outcome, changed to inconclusive if a child process called a blocked tool."""
        try:
            tool = self._blocked.read_text()
            self._blocked.unlink()
        except OSError:
            return outcome
        return msgspec.structs.replace(
            outcome, status="inconclusive", output=None, error=blocked(tool), scores=()
        )

    def __exit__(self, *_: object) -> None:
        for path in (self._path, self._blocked):
            path.unlink(missing_ok=True)
