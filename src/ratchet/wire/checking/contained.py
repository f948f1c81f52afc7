"""How a check runs programs: without real keys, with the simulator's addresses, and no way out."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ratchet.wire.facts import RepositoryLook, SecretName

SECONDS = 180.0
"""How long one run of the agent, or the project's tests, may take."""
_KEY = "ratchet-check-no-key"
_NOWHERE = "http://127.0.0.1:9"
_SIMULATED = {
    "OPENAI_BASE_URL": "/v1",
    "OPENAI_API_BASE": "/v1",
    "ANTHROPIC_BASE_URL": "",
    "GROQ_BASE_URL": "",
    "GOOGLE_GEMINI_BASE_URL": "",
    "GOOGLE_VERTEX_BASE_URL": "",
    "MISTRAL_BASE_URL": "",
    "DEEPSEEK_API_BASE": "/v1",
    "OPENROUTER_API_BASE": "/v1",
    "OPENROUTER_BASE_URL": "/v1",
    "OLLAMA_BASE_URL": "",
    "OLLAMA_API_BASE": "",
    "OLLAMA_HOST": "",
    "FIREWORKS_BASE_URL": "/v1",
    "TOGETHER_BASE_URL": "/v1",
}
"""Variables that clients read their address from, and the path that each expects."""
_KEYS = (
    *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GROQ_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"),
    *("MISTRAL_API_KEY", "COHERE_API_KEY", "TAVILY_API_KEY", "SERPER_API_KEY"),
)

_SILENT = {
    "ANONYMIZED_TELEMETRY": "False",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "POSTHOG_DISABLED": "1",
}
"""Reports of frameworks to their makers: behind the proxy that leads nowhere they would be tried
again and again."""

_OFFLINE = {"UV_OFFLINE": "1", "npm_config_offline": "true"}
"""For programs that would ask a registry for what is not installed, minutes long."""


def model_addresses(url: str) -> dict[str, str]:
    """Variables that lead clients to the simulator at a URL."""
    return {name: url + path for name, path in _SIMULATED.items()}


@contextmanager
def environment(facts: RepositoryLook, variables: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Environment of a program, with an empty home folder while it is used.

    Args:
        facts: Name the variables that the project reads keys from.
        variables: Further ones.
    """
    named = [one.name for one in facts.secrets if one.kind == "variable"]
    keys = {name: _KEY for name in (*_KEYS, *named) if _is_key(name)}
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    with tempfile.TemporaryDirectory(prefix="ratchet-home-") as home:
        yield {
            "PYTHONDONTWRITEBYTECODE": "1",
            **_SILENT,
            **_OFFLINE,
            **kept,
            **keys,
            **variables,
            "HOME": home,
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _NOWHERE),
            **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), _NOWHERE),
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }


def run_program(
    facts: RepositoryLook,
    command: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    *,
    given: str = "",
) -> subprocess.CompletedProcess[str] | str:
    """Run a program to its end, or for SECONDS; a sentence if it cannot be.

    Args:
        facts: As for `environment`.
        command: The program and its arguments.
        folder: Where it runs.
        variables: As for `environment`.
        given: What it reads from its standard input.
    """
    with environment(facts, variables) as environ:
        try:
            return subprocess.run(
                command,
                cwd=folder,
                env=environ,
                input=given,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"It did not end within {SECONDS:g} s."
        except OSError as error:
            return f"It could not be started: {error}."


def is_address(one: SecretName) -> bool:
    """Whether a variable leads to a service, and is no key: a check sets none of its own."""
    return one.kind == "variable" and not _is_key(one.name)


def _is_key(name: str) -> bool:
    return any(part in name for part in ("KEY", "TOKEN", "SECRET", "PASSWORD"))
