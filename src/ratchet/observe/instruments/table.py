"""The table of supported libraries, and how each is instrumented."""

from __future__ import annotations

import logging
import re
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from ratchet.observe.instruments.import_hook import load

if TYPE_CHECKING:
    from ratchet.observe.instruments.delegating import DelegatingProvider

_OWN = "ratchet.observe.instruments."


class Instrument(msgspec.Struct, frozen=True, kw_only=True):
    """How one library is instrumented."""

    name: str
    library: str
    """Name of its distribution."""
    module: str
    """Module whose import triggers the instrumentation."""
    openinference: str = ""
    """`module:class` of the OpenInference instrumentor; empty if the library has spans of its
    own, or Ratchet's are used."""
    needs: str = ""
    """Python package that contains that instrumentor."""
    own: str = ""
    """`module:function` of Ratchet, called with the provider: instruments the library, or adds
    what the instrumentor lacks."""
    older: str = ""
    """`module:function` of Ratchet, called with the provider: records the calls if no
    instrumentor is installed, or none fits this version."""
    at_least: tuple[int, ...] = ()
    """Oldest version that `own` supports. Instrumentors check this themselves."""
    innermost: bool = False
    """Whether frameworks that call it may record the same call."""
    repeats_root: bool = False
    """Whether the root span of a run may be recorded twice."""
    rivals: tuple[str, ...] = ()
    """`module:class` of other instrumentors of the library: if the user has enabled one of them,
    the library is not instrumented again."""


def _by_openinference(
    name: str,
    class_name: str,
    *,
    library: str = "",
    module: str = "",
    own: str = "",
    older: str = "",
    innermost: bool = False,
    repeats_root: bool = False,
    rivals: tuple[str, ...] = (),
) -> Instrument:
    package = name.replace("-", "_")
    return Instrument(
        name=name,
        library=library or name,
        module=module or package,
        openinference=f"openinference.instrumentation.{package}:{class_name}",
        needs=f"openinference-instrumentation-{name}",
        own=own,
        older=older,
        innermost=innermost,
        repeats_root=repeats_root,
        rivals=rivals,
    )


INSTRUMENTS: tuple[Instrument, ...] = (
    _by_openinference(
        "openai",
        "OpenAIInstrumentor",
        own=_OWN + "openinference_answers:read_openai",
        older=_OWN + "client_calls:record_openai",
        innermost=True,
        rivals=(
            "opentelemetry.instrumentation.openai:OpenAIInstrumentor",
            "opentelemetry.instrumentation.openai_v2:OpenAIInstrumentor",
        ),
    ),
    _by_openinference(
        "anthropic",
        "AnthropicInstrumentor",
        own=_OWN + "anthropic:adapt",
        older=_OWN + "client_calls:record_anthropic",
        innermost=True,
        rivals=("opentelemetry.instrumentation.anthropic:AnthropicInstrumentor",),
    ),
    _by_openinference(
        "litellm",
        "LiteLLMInstrumentor",
        older=_OWN + "client_calls:record_litellm",
        innermost=True,
    ),
    _by_openinference(
        "google-genai", "GoogleGenAIInstrumentor", module="google.genai", innermost=True
    ),
    _by_openinference("groq", "GroqInstrumentor", innermost=True),
    _by_openinference("mistralai", "MistralAIInstrumentor", innermost=True),
    _by_openinference(
        "bedrock", "BedrockInstrumentor", library="boto3", module="boto3", innermost=True
    ),
    _by_openinference(
        "langchain",
        "LangChainInstrumentor",
        library="langchain-core",
        module="langchain_core",
        own=_OWN + "langchain:carry_spans",
        rivals=("opentelemetry.instrumentation.langchain:LangchainInstrumentor",),
    ),
    _by_openinference(
        "llama-index",
        "LlamaIndexInstrumentor",
        library="llama-index-core",
        module="llama_index.core",
        rivals=("opentelemetry.instrumentation.llamaindex:LlamaIndexInstrumentor",),
    ),
    _by_openinference(
        "crewai",
        "CrewAIInstrumentor",
        rivals=("opentelemetry.instrumentation.crewai:CrewAIInstrumentor",),
    ),
    _by_openinference(
        "autogen-agentchat",
        "AutogenAgentChatInstrumentor",
        own=_OWN + "autogen:leave_out_twins",
    ),
    _by_openinference(
        "openai-agents",
        "OpenAIAgentsInstrumentor",
        module="agents",
        repeats_root=True,
        rivals=("opentelemetry.instrumentation.openai_agents:OpenAIAgentsInstrumentor",),
    ),
    _by_openinference("smolagents", "SmolagentsInstrumentor"),
    _by_openinference("dspy", "DSPyInstrumentor"),
    _by_openinference("agno", "AgnoInstrumentor"),
    _by_openinference("google-adk", "GoogleADKInstrumentor", module="google.adk"),
    _by_openinference("haystack", "HaystackInstrumentor", library="haystack-ai", module="haystack"),
    Instrument(
        name="pydantic-ai",
        library="pydantic-ai-slim",
        module="pydantic_ai",
        own=_OWN + "pydantic_ai:switch_on",
        at_least=(1,),
    ),
    Instrument(
        name="semantic-kernel",
        library="semantic-kernel",
        module="semantic_kernel",
        own=_OWN + "semantic_kernel:switch_on",
        at_least=(1, 30),
    ),
    Instrument(
        name="agent-framework",
        library="agent-framework-core",
        module="agent_framework.observability",
        own=_OWN + "agent_framework:switch_on",
        at_least=(1,),
    ),
    Instrument(
        name="mcp",
        library="mcp",
        module="mcp.client.session",
        own=_OWN + "mcp:switch_on",
        at_least=(1,),
        innermost=True,
    ),
)


_log = logging.getLogger("ratchet.observe")


def is_installed(instrument: Instrument) -> bool:
    """Whether the library is installed, and what instruments it; imports neither."""
    return _is_there(instrument.library) and (
        bool(instrument.older) or not instrument.needs or _is_there(instrument.needs)
    )


def _is_there(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except Exception:  # a broken installation has more ways to fail than a missing one
        return False
    return True


def switch_on(instrument: Instrument, route: DelegatingProvider) -> bool:
    """Instrument a library that has been imported.

    Args:
        instrument: How to instrument it.
        route: The provider of its spans.

    Returns:
        Whether it is instrumented; if not, the reason is logged.
    """
    try:
        rival = _rival(instrument)
        if rival:
            _log.info("ratchet: %s is already instrumented by %s.", instrument.name, rival)
            return False
        if instrument.openinference and not _use_openinference(instrument, route):
            return False
        if instrument.own:
            if _is_too_old(instrument):
                return bool(instrument.openinference)
            load(instrument.own)(route)
    except Exception as error:
        _log.warning(
            "ratchet: %s could not be instrumented, so its spans are missing: %s: %s",
            instrument.name,
            type(error).__name__,
            error,
        )
        return False
    return True


Misfit: TypeAlias = tuple[str, str, str, str, bool]


def misfits() -> list[Misfit]:
    """Imported libraries whose installed instrumentor does not fit their version.

    Returns:
        Distribution and version of the library, then those of the instrumentor, and whether its
        extra `instruments` tells an installer which libraries it fits.
    """
    conflicts = []
    for instrument in INSTRUMENTS:
        if instrument.older:
            continue  # recorded all the same
        if (
            instrument.openinference
            and instrument.module in sys.modules
            and is_installed(instrument)
        ):
            try:
                misfit = _conflict(load(instrument.openinference)())
            except Exception:  # an instrumentor of another time may fail in any way
                misfit = True
            if misfit:
                versions = metadata.version(instrument.library), metadata.version(instrument.needs)
                extras = metadata.metadata(instrument.needs).get_all("Provides-Extra") or ()
                conflicts.append(
                    (
                        instrument.library,
                        versions[0],
                        instrument.needs,
                        versions[1],
                        "instruments" in extras,
                    )
                )
    return conflicts


def _conflict(instrumentor: Any) -> Any:
    from opentelemetry.instrumentation.dependencies import get_dependency_conflicts

    return get_dependency_conflicts(instrumentor.instrumentation_dependencies())


def _use_openinference(instrument: Instrument, route: DelegatingProvider) -> bool:
    if instrument.older and not _is_there(instrument.needs):
        load(instrument.older)(route)
        return True
    instrumentor = load(instrument.openinference)()
    if instrumentor.is_instrumented_by_opentelemetry:
        _log.info("ratchet: %s is already instrumented.", instrument.name)
        return False
    conflict = _conflict(instrumentor)
    if conflict and instrument.older:
        load(instrument.older)(route)
        return True
    if conflict:
        _log.warning(
            "ratchet: %s is not instrumented, as %s %s does not fit it: %s",
            instrument.name,
            instrument.needs,
            metadata.version(instrument.needs),
            conflict,
        )
        return False
    try:
        instrumentor.instrument(tracer_provider=route, skip_dep_check=True)
    except Exception as error:  # an instrumentor of another time may fail in any way
        if not instrument.older:
            raise
        _log.info(
            "ratchet: %s is recorded by Ratchet, as %s failed: %s: %s",
            instrument.name,
            instrument.needs,
            type(error).__name__,
            error,
        )
        load(instrument.older)(route)
    return True


def _is_too_old(instrument: Instrument) -> bool:
    version = metadata.version(instrument.library)
    numbers = tuple(int(number) for number in re.findall(r"\d+", version.split("+")[0])[:3])
    if not instrument.at_least or numbers >= instrument.at_least:
        return False
    _log.warning(
        "ratchet: %s %s is older than what can be instrumented, which is %s.",
        instrument.library,
        version,
        ".".join(map(str, instrument.at_least)),
    )
    return True


def _rival(instrument: Instrument) -> str:
    for rival in instrument.rivals:
        module, _, name = rival.partition(":")
        instrumentor_class: Any = getattr(sys.modules.get(module), name, None)
        # Instrumentors are singletons: the constructor returns the existing one.
        if instrumentor_class is not None and instrumentor_class().is_instrumented_by_opentelemetry:
            return module
    return ""
