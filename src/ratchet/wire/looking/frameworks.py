"""Agent frameworks and model SDKs: their modules and their distributions."""

from __future__ import annotations

import functools
import re
from operator import itemgetter

import msgspec


class AgentFramework(msgspec.Struct, frozen=True):
    """A framework or SDK."""

    name: str
    python: str = ""
    """Modules, with their submodules; `langchain_*` stands for every module that begins so."""
    javascript: str = ""
    """Packages; one that ends with `/` stands for all packages of that scope."""
    distributions: str = ""
    """Names on PyPI, where they differ from the modules' names."""
    sdk: bool = False
    """Whether it only calls models."""


FRAMEWORKS = (
    AgentFramework(
        "langgraph",
        "langgraph langgraph_* deepagents managed_deepagents",
        "@langchain/langgraph @langchain/langgraph-supervisor deepagents",
    ),
    AgentFramework("crewai", "crewai crewai_tools"),
    AgentFramework(
        "openai-agents", "agents", "@openai/agents @openai/agents-core", "openai-agents"
    ),
    AgentFramework("pydantic-ai", "pydantic_ai pydantic_graph", "", "pydantic-ai pydantic-ai-slim"),
    AgentFramework(
        "autogen",
        "autogen autogen_agentchat autogen_core autogen_ext ag2",
        "",
        "pyautogen autogen ag2 autogen-agentchat",
    ),
    AgentFramework("google-adk", "google.adk", "@google/adk"),
    AgentFramework(
        "claude-agent-sdk",
        "claude_agent_sdk claude_code_sdk",
        "@anthropic-ai/claude-agent-sdk @anthropic-ai/claude-code",
    ),
    AgentFramework("smolagents", "smolagents"),
    AgentFramework("agno", "agno phi", "", "agno phidata"),
    AgentFramework("strands", "strands strands_tools", "@strands-agents/sdk", "strands-agents"),
    AgentFramework("semantic-kernel", "semantic_kernel"),
    AgentFramework("agent-framework", "agent_framework"),
    AgentFramework("dspy", "dspy dsp", "", "dspy dspy-ai"),
    AgentFramework(
        "llama-index",
        "llama_index workflows",
        "llamaindex @llamaindex/",
        "llama-index llama-index-core llama-index-workflows",
    ),
    AgentFramework("haystack", "haystack haystack_integrations", "", "haystack-ai farm-haystack"),
    AgentFramework("camel", "camel", "", "camel-ai"),
    AgentFramework("swarm", "swarm"),
    AgentFramework("browser-use", "browser_use"),
    AgentFramework("livekit-agents", "livekit.agents", "@livekit/agents"),
    AgentFramework("pipecat", "pipecat", "", "pipecat-ai"),
    AgentFramework("controlflow", "controlflow marvin"),
    AgentFramework("mastra", "", "@mastra/"),
    AgentFramework("voltagent", "", "@voltagent/"),
    AgentFramework("genkit", "genkit", "genkit @genkit-ai/"),
    AgentFramework("agent-kit", "", "@inngest/agent-kit"),
    AgentFramework(
        "vercel-ai-sdk", "", "ai @ai-sdk/ @openrouter/ai-sdk-provider workers-ai-provider"
    ),
    AgentFramework(
        "langchain",
        "langchain langchain_* langserve chainlit.langchain",
        "langchain @langchain/",
        "langchain langchain-core langchain-community",
    ),
    AgentFramework("aider", "aider", "", "aider-chat"),
    AgentFramework("mirascope", "mirascope"),
    AgentFramework("instructor", "instructor", "@instructor-ai/instructor", sdk=True),
    AgentFramework("prompty", "prompty promptflow", sdk=True),
    AgentFramework("azure-ai", "azure.ai.projects azure.ai.agents azure.ai.inference", sdk=True),
    AgentFramework("anthropic", "anthropic", "@anthropic-ai/sdk", sdk=True),
    AgentFramework("openai", "openai", "openai", sdk=True),
    AgentFramework("litellm", "litellm", sdk=True),
    AgentFramework(
        "google-genai",
        "google.generativeai google.genai vertexai",
        "@google/generative-ai @google/genai @google-cloud/vertexai",
        "google-generativeai google-genai google-cloud-aiplatform",
        sdk=True,
    ),
    AgentFramework("groq", "groq", "groq-sdk", sdk=True),
    AgentFramework("mistral", "mistralai", "@mistralai/mistralai", sdk=True),
    AgentFramework("cohere", "cohere", "cohere-ai", sdk=True),
    AgentFramework("together", "together", "together-ai", sdk=True),
    AgentFramework("ollama", "ollama", "ollama", sdk=True),
    AgentFramework(
        "huggingface", "huggingface_hub transformers", "@huggingface/inference", sdk=True
    ),
    AgentFramework("llama-cpp", "llama_cpp", "node-llama-cpp", "llama-cpp-python", sdk=True),
    AgentFramework("bedrock", "boto3", "@aws-sdk/client-bedrock-runtime", sdk=True),
    AgentFramework("zhipu", "zhipuai dashscope", sdk=True),
)
"""Orchestrating frameworks first: an agent is built on the first of these that it uses."""

RANK = {framework.name: number for number, framework in enumerate(FRAMEWORKS)}
SDKS = frozenset(framework.name for framework in FRAMEWORKS if framework.sdk)


@functools.cache
def framework_of(module: str) -> str:
    """Name of the framework that a module or package belongs to; empty if none."""
    best, length = "", 0
    for framework in FRAMEWORKS:
        for name in f"{framework.python} {framework.javascript}".split():
            begins = module.startswith(name.rstrip("*")) if name.endswith(("*", "/")) else False
            if begins or module == name or module.startswith((f"{name}.", f"{name}/")):
                best, length = max((best, length), (framework.name, len(name)), key=itemgetter(1))
    return best


@functools.cache
def framework_of_distribution(name: str) -> str:
    """Name of the framework that a distribution of Python belongs to; empty if none."""
    wanted = normal_name(name)
    for framework in FRAMEWORKS:
        if wanted in map(normal_name, (framework.distributions or framework.python).split()):
            return framework.name
    module = wanted.replace("-", "_")
    return framework_of(module) if wanted.startswith(("langchain-", "langgraph-")) else ""


def normal_name(name: str) -> str:
    """The normalised name of a distribution, as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
