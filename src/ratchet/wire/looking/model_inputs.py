"""Calls that give text to a model: which arguments, and in which role."""

# ruff: noqa: E501 - a table

from __future__ import annotations

import re
from dataclasses import dataclass

from ratchet.wire.looking.former_frameworks import framework_of


@dataclass(frozen=True)
class ModelInput:
    """A call that gives text to a model."""

    framework: str
    symbol: str
    """End of the resolved name."""
    roles: dict[str, str]
    """Role by argument."""
    positions: tuple[str, ...] = ()
    """Arguments by position."""
    runs: bool = False
    """Whether the call runs a model or an agent."""
    fills: bool = False
    """Whether its keywords fill slots of a template."""


def _one(
    framework: str, symbols: str, arguments: str, positions: str = "", runs: bool = False
) -> list[ModelInput]:
    roles = dict(one.split(":") for one in arguments.split()) if arguments else {}
    given = tuple(positions.split())
    return [ModelInput(framework, symbol, roles, given, runs) for symbol in symbols.split()]


_CHAT = "messages:user prompt:user system:system instructions:system input:user"
MODEL_INPUTS = [
    *_one(
        "crewai",
        "Agent",
        "role:system goal:system backstory:system system_template:system config:file",
    ),
    *_one("crewai", "Task", "description:user expected_output:user config:file"),
    *_one("crewai", "kickoff kickoff_async kickoff_for_each", "", runs=True),
    *_one(
        "openai-agents",
        "Agent SandboxAgent RealtimeAgent",
        "instructions:system",
        "name instructions",
    ),
    *_one(
        "openai-agents",
        "Runner.run Runner.run_sync Runner.run_streamed run",
        "input:user",
        "agent input",
        True,
    ),
    *_one("pydantic-ai", "Agent", "system_prompt:system instructions:system"),
    *_one(
        "pydantic-ai",
        "Agent.from_file",
        "path:described system_prompt:system instructions:system",
        "path",
    ),
    *_one(
        "pydantic-ai",
        "Agent.from_spec",
        "spec:system system_prompt:system instructions:system",
        "spec",
    ),
    *_one("pydantic-ai", "FunctionToolset", "instructions:system"),
    *_one("pydantic-ai", "run run_sync run_stream iter", "user_prompt:user", "user_prompt", True),
    *_one(
        "autogen",
        "AssistantAgent ConversableAgent GPTAssistantAgent SocietyOfMindAgent SwarmAgent",
        "system_message:system instructions:system",
        "name system_message",
    ),
    *_one(
        "autogen",
        "Agent",
        "prompt:system system_message:system instructions:system",
        "name prompt",
    ),
    *_one("autogen", "UserProxyAgent", "system_message:system"),
    *_one(
        "autogen",
        "UpdateSystemMessage UPDATE_SYSTEM_MESSAGE",
        "content_updater:system",
        "content_updater",
    ),
    *_one("autogen", "ask", "message:user", "message", True),
    *_one("autogen", "SelectorGroupChat", "selector_prompt:system"),
    *_one("autogen", "initiate_chat a_initiate_chat", "message:user", runs=True),
    *_one(
        "autogen",
        "initiate_swarm_chat a_initiate_swarm_chat initiate_group_chat a_initiate_group_chat",
        "messages:user",
        runs=True,
    ),
    *_one("autogen", "run run_stream", "task:user", "task", True),
    *_one("autogen", "send a_send", "message:user", "message", True),
    *_one("aider", "run", "with_message:user", "with_message", True),
    *_one("langchain", "PromptTemplate", "template:user", "template"),
    *_one(
        "langchain",
        "PromptTemplate.from_template ChatPromptTemplate.from_template HumanMessagePromptTemplate.from_template fromTemplate",
        "template:user",
        "template",
    ),
    *_one("langchain", "SystemMessagePromptTemplate.from_template", "template:system", "template"),
    *_one(
        "langchain",
        "ChatPromptTemplate ChatPromptTemplate.from_messages from_messages fromMessages",
        "messages:user",
        "messages",
    ),
    *_one(
        "langchain",
        "FewShotPromptTemplate FewShotChatMessagePromptTemplate",
        "prefix:system suffix:user",
    ),
    *(
        ModelInput("langchain", symbol, {}, fills=True)
        for symbol in ("partial", "format_messages", "format_prompt")
    ),
    *_one(
        "langchain",
        "from_chain_type from_llm load_qa_chain load_qa_with_sources_chain load_summarize_chain",
        "",
        runs=True,
    ),
    *_one("langchain", "SystemMessage", "content:system", "content"),
    *_one("langchain", "HumanMessage", "content:user", "content"),
    *_one("langchain", "ToolMessage", "content:tool", "content"),
    *_one(
        "langchain",
        "create_agent createAgent create_react_agent",
        "system_prompt:system systemPrompt:system prompt:system",
    ),
    *_one(
        "langchain",
        "invoke ainvoke stream astream predict apredict call",
        "input:user",
        "input",
        True,
    ),
    *_one(
        "langgraph",
        "create_react_agent createReactAgent create_supervisor create_deep_agent createDeepAgent define_deep_agent",
        "subagents:system prompt:system state_modifier:system messages_modifier:system system_prompt:system instructions:system stateModifier:system messageModifier:system systemPrompt:system",
    ),
    *_one("langgraph", "compile", "", runs=True),
    *_one(
        "llama-index",
        "FunctionAgent ReActAgent CodeActAgent AgentWorkflow OpenAIAgent.from_tools from_tools from_tools_or_functions ContextChatEngine.from_defaults from_defaults as_chat_engine as_query_engine",
        "system_prompt:system context:system context_prompt:system context_template:system text_qa_template:user refine_template:user summary_template:user condense_prompt:user condense_question_prompt:user qa_prompt:user",
        runs=True,
    ),
    *_one("llama-index", "ChatMessage", "content:user"),
    *_one("llama-index", "run", "user_msg:user", "user_msg", True),
    *_one(
        "llama-index",
        "complete acomplete stream_complete chat achat stream_chat achat_with_tools chat_with_tools predict apredict structured_predict astructured_predict stream_chat_with_tools astream_chat astream_complete astream_chat_with_tools",
        "prompt:user messages:user chat_history:user user_msg:user message:user",
        "prompt messages",
        True,
    ),
    *_one(
        "llama-index",
        "query aquery",
        "str_or_query_bundle:user",
        "str_or_query_bundle",
        True,
    ),
    *_one("llama-index", "from_messages", "message_templates:user", "message_templates"),
    *_one(
        "llama-index",
        "PromptTemplate RichPromptTemplate ChatPromptTemplate Prompt QuestionAnswerPrompt RefinePrompt SummaryPrompt",
        "template:user",
        "template",
    ),
    *_one(
        "dspy",
        "Predict ChainOfThought ReAct ProgramOfThought TypedPredictor ChainOfThoughtWithHint MultiChainComparison TypedChainOfThought",
        "signature:signature",
        "signature",
        True,
    ),
    *_one("dspy", "settings.lm", "prompt:user messages:user", "prompt", True),
    *_one("google-adk", "Agent LlmAgent", "instruction:system global_instruction:system"),
    *_one("google-adk", "SequentialAgent ParallelAgent LoopAgent", ""),
    *_one(
        "claude-agent-sdk",
        "ClaudeAgentOptions ClaudeCodeOptions AgentDefinition query",
        "system_prompt:system prompt:user systemPrompt:system options:user append_system_prompt:system",
        runs=True,
    ),
    *_one("smolagents", "CodeAgent ToolCallingAgent", "system_prompt:system instructions:system"),
    *_one("smolagents", "run", "task:user", "task", True),
    *_one(
        "agno",
        "Agent Team",
        "instructions:system system_message:system description:system goal:system role:system expected_output:system additional_context:system",
    ),
    *_one(
        "agno", "run arun print_response aprint_response", "input:user message:user", "input", True
    ),
    *_one("agno", "cli_app acli_app", "input:user message:user", "input", True),
    *_one("strands", "Agent", "system_prompt:system systemPrompt:system"),
    *_one(
        "semantic-kernel",
        "ChatCompletionAgent OpenAIAssistantAgent AzureAIAgent",
        "instructions:system",
    ),
    *_one(
        "semantic-kernel",
        "invoke_prompt KernelFunctionFromPrompt add_function",
        "prompt:user",
        "prompt",
        True,
    ),
    *_one("semantic-kernel", "add_system_message", "content:system", "content"),
    *_one("agent-framework", "ChatAgent create_agent as_agent Agent", "instructions:system"),
    *_one("haystack", "PromptBuilder ChatPromptBuilder", "template:user", "template"),
    *_one("haystack", "Agent", "system_prompt:system"),
    *_one("haystack", "ChatMessage.from_system", "text:system", "text"),
    *_one("haystack", "ChatMessage.from_user", "text:user", "text"),
    *_one("swarm", "Agent", "instructions:system"),
    *_one("livekit-agents", "Agent", "instructions:system"),
    *_one(
        "livekit-agents",
        "generate_reply",
        "instructions:system user_input:user",
        "user_input",
        True,
    ),
    *_one("prompty", "execute execute_async run run_async", "prompt:file", "prompt", True),
    *_one("prompty", "load load_async Prompty.load", "path:file source:file", "path", True),
    *_one("azure-ai", "PromptTemplate.from_prompty", "file_path:file", "file_path", True),
    *_one("azure-ai", "PromptTemplate.from_string", "prompt_template:user", "prompt_template"),
    *_one(
        "azure-ai",
        "create_agent update_agent",
        "instructions:system additional_instructions:system",
        runs=True,
    ),
    *_one("azure-ai", "complete create_message", "messages:user content:user", "messages", True),
    *_one(
        "browser-use",
        "Agent",
        "task:user extend_system_message:system override_system_message:system",
        runs=True,
    ),
    *_one("vercel-ai-sdk", "generateText streamText generateObject streamObject", _CHAT, runs=True),
    *_one("vercel-ai-sdk", "ToolLoopAgent Experimental_Agent Agent", _CHAT),
    *_one("mastra", "Agent", "instructions:system"),
    *_one(
        "mastra",
        "generate stream generateVNext streamVNext generateLegacy streamLegacy network",
        "messages:user instructions:system system:system",
        "messages",
        True,
    ),
    *_one("voltagent", "Agent", "instructions:system"),
    *_one("agent-kit", "createAgent", "system:system"),
    *_one("genkit", "generate definePrompt", _CHAT, runs=True),
    *_one(
        "google-genai",
        "GenerativeModel getGenerativeModel GenerateContentConfig",
        "system_instruction:system systemInstruction:system",
    ),
    *_one(
        "google-genai",
        "generate_content generate_content_async generate_content_stream generateContent generateContentStream send_message sendMessage",
        "contents:user message:user config:system",
        "contents",
        True,
    ),
    *_one("ollama", "chat generate", _CHAT, runs=True),
    *_one("litellm", "completion acompletion", "messages:user", runs=True),
    *_one("cohere", "chat chat_stream", "message:user preamble:system messages:user", runs=True),
    *_one("mistral", "chat.complete chat.stream chat.complete_async", "messages:user", runs=True),
    *_one(
        "huggingface",
        "chat_completion text_generation chatCompletion",
        "messages:user prompt:user",
        "prompt",
        True,
    ),
    *_one(
        "bedrock",
        "converse converse_stream invoke_model",
        "messages:user system:system body:user",
        runs=True,
    ),
]

_ANY = [
    *_one(
        "",
        "chat.completions.create chat.completions.parse chat.completions.stream ChatCompletion.create ChatCompletion.acreate chat_completion",
        "messages:user",
        runs=True,
    ),
    *_one(
        "",
        "responses.create responses.parse responses.stream",
        "input:user instructions:system",
        runs=True,
    ),
    *_one("", "threads.messages.create", "content:user", runs=True),
    *_one("", "threads.create", "messages:user"),
    *_one(
        "",
        "messages.create messages.stream messages.parse",
        "messages:user system:system",
        runs=True,
    ),
    *_one(
        "",
        "assistants.create assistants.update threads.runs.create threads.runs.create_and_poll threads.runs.stream threads.create_and_run",
        "instructions:system additional_instructions:system",
        runs=True,
    ),
    *_one("", "completions.create Completion.create", "prompt:user", runs=True),
]
"""Methods of model clients, whatever their client is bound to."""

_ADDRESS = re.compile(
    r"/(?:chat/completions|completions|responses|v1/messages)(?:$|[?`])"
    r"|:(?:generateContent|streamGenerateContent)\b|:11434/api/(?:chat|generate)\b"
)
"""Ends of the addresses of models' APIs; a program's own route may pass such a call on."""
POSTED = ModelInput(
    "",
    "fetch",
    {
        **dict.fromkeys(("messages", "input", "prompt", "contents"), "user"),
        **dict.fromkeys(("system", "instructions", "systemInstruction"), "system"),
    },
    runs=True,
)
"""A request to a model's API without a client."""


def is_model_address(text: str) -> bool:
    """Whether a URL is that of a model's API."""
    return bool(_ADDRESS.search(text))


_AGENT = re.compile(r"\.(?:[A-Z]\w*)?Agent$")
"""Other classes of a framework that are agents, by their name."""
_AGENT_ROLES = dict.fromkeys(
    (
        *("instructions", "instruction", "system_message", "system_prompt", "prompt"),
        *("systemMessage", "systemPrompt"),
    ),
    "system",
)
_FINDS = re.compile(r"[Rr]etriever|[Cc]ompressor|[Vv]ector_?[Ss]tore|[Ss]plitter|[Ll]oader\b")
"""What takes text to find other text by: it is no model."""
_ANSWERING = re.compile(r"\.as_(?:query|chat)_engine\b")
"""Methods by which an index of LlamaIndex becomes what asks a model."""
_DEFAULTS = re.compile(r"(?:Engine|Agent|Runner|Synthesizer|Program|Extractor)\.from_defaults$")
"""Classes of LlamaIndex that call a model; others are made by a method of the same name."""
_RAW = re.compile(r"\.with_(?:raw|streaming)_response\b|\.with_options\b")
"""Steps of a client's call that change nothing of its text."""
_NAMED = re.compile(
    r"(?:^|[._])(?:llms?|(?:chat_?)?model|lm|chain|structured_llm)(?:_?\d+|_[a-z_]+)?"
    r"\.(?:a?(?:invoke|stream|batch|predict|complete|chat|generate|call)"
    r"|generate_(?:content|text)(?:_async)?|(?:a?chat_)?completions?)$"
    r"|(?:^|[._])(?:llm|lm)$",
    re.IGNORECASE,
)
"""Calls of a model that is known by its name only."""
_MODEL_CLASS = re.compile(r"\.(?:[A-Z]\w*)?(?:Model|LLM)$")
_NAMED_INPUT = ModelInput(
    "",
    "named",
    {"input": "user", "messages": "user", "prompt": "user", "system": "system"},
    ("input",),
    True,
)
LAST_NAMES = frozenset(
    {
        *(one.symbol.rpartition(".")[2] for one in (*MODEL_INPUTS, *_ANY)),
        *("llm", "lm", "batch", "abatch", "agenerate", "acall"),
        *("generate_text", "generate_text_async", "chat_completions", "achat_completion"),
    }
)
"""Last names of calls that may give text to a model."""


def input_of(outside: list[str], written: str) -> ModelInput | None:
    """The input that a call is.

    Args:
        outside: Resolved names of what it calls.
        written: The call as it is written, dotted.
    """
    outside = [
        _RAW.sub("", name)
        for name in outside
        if (not _FINDS.search(name) or _ANSWERING.search(name))
        and not (name.endswith(".from_defaults") and not _DEFAULTS.search(name))
    ]
    written = _RAW.sub("", written)
    for name in outside:
        framework = framework_of(name.rpartition(".")[0]) or framework_of(name)
        for end in range(len(name.split(".")), 0, -1):
            if not framework:
                framework = framework_of(".".join(name.split(".")[:end]))
        family = {framework, "langchain"} if framework in ("langgraph",) else {framework}
        for one in MODEL_INPUTS:
            if one.framework in family and (name == one.symbol or name.endswith("." + one.symbol)):
                return one
        if framework:
            for one in _ANY:
                if name.endswith("." + one.symbol):
                    return ModelInput(framework, one.symbol, one.roles, one.positions, True)
            if _AGENT.search(name):
                return ModelInput(framework, "Agent", _AGENT_ROLES)
    if not outside:
        for one in _ANY:
            if re.search(rf"(?:^|\.){re.escape(one.symbol)}$", written):
                return one
    return None


def is_model_class(outside: str) -> bool:
    """Whether a method is of a framework's class of models: `smolagents.LiteLLMModel.complete`."""
    owner = outside.rpartition(".")[0]
    return bool(framework_of(owner)) and _MODEL_CLASS.search(owner) is not None


def named_input(written: str) -> ModelInput | None:
    """The input that a call of something unknown is, by the name of what it calls.

    Args:
        written: The call as it is written, dotted.
    """
    return _NAMED_INPUT if _NAMED.search(written) else None
