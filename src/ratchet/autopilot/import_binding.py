"""Resources that an agent reads while it is imported, and what follows from that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ratchet.autopilot.config import Config
from ratchet.types import ConfigError, Declaration, PromptTemplate

HINT = "Set import_per_candidate = true under [run] in ratchet.toml, or read it where it is used."


def import_bound(declarations: Mapping[str, Declaration]) -> tuple[str, ...]:
    """Names of the resources whose value a process keeps from its start, in order."""
    return tuple(
        sorted(
            name
            for name, declaration in declarations.items()
            if declaration.read_at_import or declaration.located_by == "file"
        )
    )


def check_import_binding(config: Config, declarations: Mapping[str, Declaration]) -> None:
    """Check that the candidates of every prompt reach the agent.

    Raises:
        ConfigError: A prompt is read while the agent is imported, once for all candidates.
    """
    names = [
        name
        for name in import_bound(declarations)
        if isinstance(declarations[name].resource, PromptTemplate)
    ]
    if names and not config.imports_per_candidate:
        raise ConfigError(f"{sentence(names)} No candidate's text would reach it.", hint=HINT)


def warning(config: Config, declarations: Mapping[str, Declaration]) -> str:
    """What to say about resources read at import; empty when each candidate is imported."""
    names = import_bound(declarations)
    if not names or config.imports_per_candidate:
        return ""
    return f"{sentence(names)} It runs with the source's own. {HINT}"


def live_refusal(names: Iterable[str], declarations: Mapping[str, Declaration]) -> str:
    """Why a candidate cannot take effect per call; empty when it can.

    Args:
        names: The resources that it changes.
        declarations: Those of the agent.
    """
    bound = [name for name in import_bound(declarations) if name in set(names)]
    if not bound:
        return ""
    return (
        f"{sentence(bound)} A running process keeps its value, so no share of its calls can have"
        " another one: there is no canary, and a release takes effect when the agent restarts."
    )


def sentence(names: Iterable[str]) -> str:
    """Sentence that says that the agent reads these resources while it is imported."""
    return f"The agent reads {', '.join(map(repr, names))} while it is imported."
