"""The frameworks that are tried, with the versions that are installed for it."""

from __future__ import annotations

from typing import NamedTuple

OPENAI = "openai==3.54.0"
OPENAI_2 = "openai==2.54.0"
BY_OPENAI = "openinference-instrumentation-openai==0.1.66"


class Framework(NamedTuple):
    """One row of the matrix."""

    name: str
    title: str
    agents: tuple[str, ...]
    """Files in `agents/`, each a small agent with a tool."""
    shown: str = ""
    """The distribution whose version the matrix shows."""
    packages: tuple[str, ...] = ()
    """What its environment holds besides Ratchet."""
    told_by: str = "its own OpenTelemetry"
    """Whose spans these are."""
    decorated: frozenset[str] = frozenset()
    """Which spans are those of our decorators, as the library knows nothing of them: `agent`,
    `tool`."""
    simulated: bool = True
    """Whether its model is the simulator."""
    fast: bool = False
    """Whether CI runs it, in the environment of the tests."""


_OPENINFERENCE = "OpenInference"
_OURS = "Ratchet, from what is sent and received"
_BOTH = frozenset({"agent", "tool"})

FRAMEWORKS = (
    Framework(
        "plain",
        "Plain Python",
        ("plain",),
        told_by="decorators",
        decorated=_BOTH,
        simulated=False,
        fast=True,
    ),
    Framework(
        "openai",
        "OpenAI SDK",
        ("openai_chat", "openai_responses", "openai_streaming"),
        "openai",
        (OPENAI, BY_OPENAI),
        _OPENINFERENCE,
        _BOTH,
        fast=True,
    ),
    Framework(
        "anthropic",
        "Anthropic SDK",
        ("anthropic_messages",),
        "anthropic",
        ("anthropic==2.12.0", "openinference-instrumentation-anthropic==3.1.0"),
        _OPENINFERENCE,
        _BOTH,
        fast=True,
    ),
    Framework(
        "openai-1",
        "OpenAI SDK 1",
        ("openai_chat",),
        "openai",
        ("openai==1.60.0", "httpx<0.28", BY_OPENAI),
        _OURS,
        _BOTH,
    ),
    Framework(
        "openai-1-responses",
        "OpenAI SDK 1, responses",
        ("openai_chat", "openai_responses", "openai_streaming"),
        "openai",
        ("openai==1.109.1", BY_OPENAI),
        _OURS,
        _BOTH,
    ),
    Framework(
        "anthropic-0",
        "Anthropic SDK 0",
        ("anthropic_messages",),
        "anthropic",
        ("anthropic==0.42.0", "httpx<0.28", "openinference-instrumentation-anthropic==3.1.0"),
        _OURS,
        _BOTH,
    ),
    Framework(
        "litellm-before-1.65",
        "LiteLLM before 1.65",
        ("litellm_loop",),
        "litellm",
        (
            "litellm==1.57.0",
            "openai==1.60.0",
            "httpx<0.28",
            "openinference-instrumentation-litellm==0.1.51",
            BY_OPENAI,
        ),
        _OURS,
        _BOTH,
    ),
    Framework(
        "langgraph",
        "LangChain and LangGraph",
        ("langgraph_agent", "langchain_agent"),
        "langgraph",
        (
            "langgraph==1.2.22",
            "langchain==1.4.7",
            "langchain-core==1.7.2",
            "langchain-openai==1.7.3",
            OPENAI,
            "openinference-instrumentation-langchain==0.1.80",
            BY_OPENAI,
        ),
        _OPENINFERENCE,
    ),
    Framework(
        "crewai",
        "CrewAI",
        ("crewai_crew",),
        "crewai",
        (
            "crewai==1.15.30",
            OPENAI_2,
            "openinference-instrumentation-crewai==1.1.21",
            BY_OPENAI,
        ),
        _OPENINFERENCE,
    ),
    Framework(
        "autogen",
        "AutoGen (agentchat)",
        ("autogen_agent", "autogen_team"),
        "autogen-agentchat",
        (
            "autogen-agentchat==0.7.5",
            "autogen-ext[openai]==0.7.5",
            OPENAI,
            "openinference-instrumentation-autogen-agentchat==0.1.22",
            BY_OPENAI,
        ),
        _OPENINFERENCE,
    ),
    Framework(
        "openai-agents",
        "OpenAI Agents SDK",
        ("openai_agents",),
        "openai-agents",
        (
            "openai-agents==0.24.0",
            OPENAI,
            "openinference-instrumentation-openai-agents==2.6.0",
            BY_OPENAI,
        ),
        _OPENINFERENCE,
        fast=True,
    ),
    Framework(
        "semantic-kernel",
        "Semantic Kernel",
        ("semantic_kernel_agent",),
        "semantic-kernel",
        ("semantic-kernel==1.45.0", OPENAI, BY_OPENAI),
    ),
    Framework(
        "agent-framework",
        "Microsoft Agent Framework",
        ("agent_framework_agent",),
        "agent-framework-core",
        ("agent-framework-core==1.23.0", "agent-framework-openai==1.17.0", OPENAI, BY_OPENAI),
    ),
    Framework(
        "llama-index",
        "LlamaIndex",
        ("llama_index_agent",),
        "llama-index-core",
        (
            "llama-index-core==0.14.25",
            "llama-index-llms-openai==0.8.3",
            OPENAI_2,
            "openinference-instrumentation-llama-index==4.6.1",
            BY_OPENAI,
        ),
        _OPENINFERENCE,
    ),
    Framework(
        "pydantic-ai",
        "pydantic-ai",
        ("pydantic_ai_agent",),
        "pydantic-ai-slim",
        ("pydantic-ai-slim[openai]==2.68.0", OPENAI, BY_OPENAI),
        fast=True,
    ),
    Framework(
        "smolagents",
        "smolagents",
        ("smolagents_agent",),
        "smolagents",
        (
            "smolagents[openai]==1.26.0",
            OPENAI,
            "openinference-instrumentation-smolagents==0.1.43",
            BY_OPENAI,
        ),
        _OPENINFERENCE,
    ),
    Framework(
        "dspy",
        "DSPy",
        ("dspy_react",),
        "dspy",
        (
            "dspy==3.4.1",
            "litellm==1.106.2",
            OPENAI_2,
            "openinference-instrumentation-dspy==0.1.48",
            "openinference-instrumentation-litellm==0.1.51",
            BY_OPENAI,
        ),
        _OPENINFERENCE,
    ),
    Framework(
        "litellm",
        "LiteLLM",
        ("litellm_loop",),
        "litellm",
        (
            "litellm==1.106.2",
            "mcp==2.3.0",  # without it this version fails when there are tools
            OPENAI_2,
            "openinference-instrumentation-litellm==0.1.51",
            BY_OPENAI,
        ),
        _OPENINFERENCE,
        _BOTH,
    ),
    Framework(
        "mcp",
        "MCP",
        ("mcp_client",),
        "mcp",
        ("mcp==2.3.0", OPENAI, BY_OPENAI),
        "its own OpenTelemetry and Ratchet",
        frozenset({"agent"}),
        fast=True,
    ),
)
