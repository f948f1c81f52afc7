"""Agent frameworks and model SDKs: the modules they are imported from, and their distributions."""

from __future__ import annotations

import functools

import msgspec


class FormerFramework(msgspec.Struct, frozen=True):
    """A framework or SDK."""

    name: str
    python: tuple[str, ...] = ()
    """Modules; their submodules belong to it too."""
    javascript: tuple[str, ...] = ()
    """Packages; one that ends with `/` stands for all packages of that scope."""
    distributions: tuple[str, ...] = ()
    """In Python's index, where they differ from the module's name."""
    sdk: bool = False
    """Calls models and nothing more."""


FRAMEWORKS = (
    FormerFramework(
        "langgraph",
        (
            "langgraph",
            "langgraph_supervisor",
            "langgraph_swarm",
            "deepagents",
            "langgraph_bigtool",
            "managed_deepagents",
        ),
        ("@langchain/langgraph", "@langchain/langgraph-supervisor", "deepagents"),
        ("langgraph",),
    ),
    FormerFramework("crewai", ("crewai", "crewai_tools"), (), ("crewai",)),
    FormerFramework(
        "openai-agents", ("agents",), ("@openai/agents", "@openai/agents-core"), ("openai-agents",)
    ),
    FormerFramework(
        "pydantic-ai", ("pydantic_ai", "pydantic_graph"), (), ("pydantic-ai", "pydantic-ai-slim")
    ),
    FormerFramework(
        "autogen",
        ("autogen", "autogen_agentchat", "autogen_core", "autogen_ext", "ag2"),
        (),
        ("pyautogen", "autogen", "ag2", "autogen-agentchat"),
    ),
    FormerFramework("google-adk", ("google.adk",), ("@google/adk",), ("google-adk",)),
    FormerFramework(
        "claude-agent-sdk",
        ("claude_agent_sdk", "claude_code_sdk"),
        ("@anthropic-ai/claude-agent-sdk", "@anthropic-ai/claude-code"),
        ("claude-agent-sdk", "claude-code-sdk"),
    ),
    FormerFramework("smolagents", ("smolagents",), (), ("smolagents",)),
    FormerFramework("agno", ("agno", "phi"), (), ("agno", "phidata")),
    FormerFramework(
        "strands", ("strands", "strands_tools"), ("@strands-agents/sdk",), ("strands-agents",)
    ),
    FormerFramework("semantic-kernel", ("semantic_kernel",), (), ("semantic-kernel",)),
    FormerFramework("agent-framework", ("agent_framework",), (), ("agent-framework",)),
    FormerFramework("dspy", ("dspy", "dsp"), (), ("dspy", "dspy-ai")),
    FormerFramework(
        "llama-index",
        ("llama_index", "workflows"),
        ("llamaindex", "@llamaindex/"),
        ("llama-index", "llama-index-core", "llama-index-workflows"),
    ),
    FormerFramework(
        "haystack", ("haystack", "haystack_integrations"), (), ("haystack-ai", "farm-haystack")
    ),
    FormerFramework("camel", ("camel",), (), ("camel-ai",)),
    FormerFramework("swarm", ("swarm",), (), ("swarm",)),
    FormerFramework("browser-use", ("browser_use",), (), ("browser-use",)),
    FormerFramework(
        "livekit-agents", ("livekit.agents",), ("@livekit/agents",), ("livekit-agents",)
    ),
    FormerFramework("pipecat", ("pipecat",), (), ("pipecat-ai",)),
    FormerFramework("controlflow", ("controlflow", "marvin"), (), ("controlflow", "marvin")),
    FormerFramework("mastra", (), ("@mastra/",)),
    FormerFramework("voltagent", (), ("@voltagent/",)),
    FormerFramework("genkit", ("genkit",), ("genkit", "@genkit-ai/"), ("genkit",)),
    FormerFramework("agent-kit", (), ("@inngest/agent-kit",)),
    FormerFramework(
        "vercel-ai-sdk",
        (),
        ("ai", "@ai-sdk/", "@openrouter/ai-sdk-provider", "workers-ai-provider"),
    ),
    FormerFramework(
        "langchain",
        (
            "langchain",
            "langchain_core",
            "langchain_community",
            "langchain_classic",
            "langchain_experimental",
            "langchain_openai",
            "langchain_anthropic",
            "langchain_google_genai",
            "langchain_google_vertexai",
            "langchain_groq",
            "langchain_ollama",
            "langchain_mistralai",
            "langchain_aws",
            "langchain_huggingface",
            "langchain_together",
            "langchain_cohere",
            "langchain_fireworks",
            "langchain_deepseek",
            "langchain_xai",
            "langchain_nvidia_ai_endpoints",
            "langserve",
            "chainlit.langchain",
        ),
        ("langchain", "@langchain/"),
        ("langchain", "langchain-core", "langchain-community"),
    ),
    FormerFramework("aider", ("aider",), (), ("aider-chat",)),
    FormerFramework("mirascope", ("mirascope",), (), ("mirascope",)),
    FormerFramework(
        "instructor", ("instructor",), ("@instructor-ai/instructor",), ("instructor",), sdk=True
    ),
    FormerFramework("prompty", ("prompty", "promptflow"), (), ("prompty", "promptflow"), sdk=True),
    FormerFramework(
        "azure-ai",
        ("azure.ai.projects", "azure.ai.agents", "azure.ai.inference"),
        (),
        ("azure-ai-projects", "azure-ai-agents", "azure-ai-inference"),
        sdk=True,
    ),
    FormerFramework("anthropic", ("anthropic",), ("@anthropic-ai/sdk",), ("anthropic",), sdk=True),
    FormerFramework("openai", ("openai",), ("openai",), ("openai",), sdk=True),
    FormerFramework("litellm", ("litellm",), (), ("litellm",), sdk=True),
    FormerFramework(
        "google-genai",
        ("google.generativeai", "google.genai", "vertexai"),
        ("@google/generative-ai", "@google/genai", "@google-cloud/vertexai"),
        ("google-generativeai", "google-genai", "google-cloud-aiplatform"),
        sdk=True,
    ),
    FormerFramework("groq", ("groq",), ("groq-sdk",), ("groq",), sdk=True),
    FormerFramework("mistral", ("mistralai",), ("@mistralai/mistralai",), ("mistralai",), sdk=True),
    FormerFramework("cohere", ("cohere",), ("cohere-ai",), ("cohere",), sdk=True),
    FormerFramework("together", ("together",), ("together-ai",), ("together",), sdk=True),
    FormerFramework("ollama", ("ollama",), ("ollama",), ("ollama",), sdk=True),
    FormerFramework(
        "huggingface",
        ("huggingface_hub", "transformers"),
        ("@huggingface/inference",),
        ("huggingface-hub", "transformers"),
        sdk=True,
    ),
    FormerFramework(
        "llama-cpp", ("llama_cpp",), ("node-llama-cpp",), ("llama-cpp-python",), sdk=True
    ),
    FormerFramework(
        "bedrock", ("boto3",), ("@aws-sdk/client-bedrock-runtime",), ("boto3",), sdk=True
    ),
    FormerFramework("zhipu", ("zhipuai", "dashscope"), (), ("zhipuai", "dashscope"), sdk=True),
)
"""Those that orchestrate come first: the first one in a program is what its agent is made of."""

RANK = {framework.name: number for number, framework in enumerate(FRAMEWORKS)}
SDKS = frozenset(framework.name for framework in FRAMEWORKS if framework.sdk)


@functools.cache
def framework_of(module: str) -> str:
    """Name of the framework that a module or package belongs to; empty if none."""
    best, length = "", -1
    for framework in FRAMEWORKS:
        for name in framework.python:
            fits = module == name or module.startswith(name + ".")
            if fits and len(name) > length:
                best, length = framework.name, len(name)
        for name in framework.javascript:
            scope = name.endswith("/") and module.startswith(name)
            fits = scope or module == name or module.startswith(name + "/")
            if fits and len(name) > length:
                best, length = framework.name, len(name)
    return best


def hint_words() -> list[str]:
    """Words that a file which imports any framework contains."""
    words = {
        name.rstrip("/")
        for framework in FRAMEWORKS
        for name in (*framework.python, *framework.javascript)
    }
    return sorted(words)
