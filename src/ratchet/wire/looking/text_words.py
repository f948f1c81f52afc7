"""Names of functions, keys and roles that text for a model passes through."""

from __future__ import annotations

import re

UNCHANGED = frozenset(
    {
        *("strip", "lstrip", "rstrip", "format", "format_map", "replace", "dedent", "cleandoc"),
        *("str", "String", "trim", "trimStart", "trimEnd", "substitute", "safe_substitute"),
        *("removeprefix", "removesuffix", "expandtabs", "indent", "partial", "fill", "decode"),
        *(
            "encode",
            "toString",
            "replaceAll",
            "list",
            "tuple",
            "copy",
            "deepcopy",
            "cast",
            "with_config",
        ),
        *("partial_format", "stripIndent", "concat", "from_template", "fromTemplate", "ensure_str"),
        *("convert_openai_messages", "convert_to_messages", "convert_to_openai_messages"),
        *("trim_messages", "filter_messages", "merge_message_runs"),
        *("format_messages", "format_prompt", "formatMessages", "formatPrompt", "invoke_template"),
    }
)
"""Functions whose result is their text, with slots filled."""
READERS = frozenset(
    {
        *(
            "read",
            "read_text",
            "readFile",
            "readFileSync",
            "readlines",
            "load",
            "safe_load",
            "loads",
        ),
        *("get_template", "getTemplate", "from_file", "fromFile", "load_prompt", "read_bytes"),
        *(
            "open",
            "Path",
            "full_load",
            "parse",
            "joinpath",
            "files",
            "from_template_file",
            "Template",
        ),
        *("from_string", "render", "resolve", "absolute", "get_data", "read_resource", "execute"),
        *("execute_async", "load_template", "text", "json", "open_text", "loadPrompt", "from_path"),
    }
)
STORES = frozenset(
    {"pull", "get_prompt", "getPrompt", "pull_prompt", "pullPrompt", "get_prompt_template"}
)
MESSAGE_ROLES = {
    "SystemMessage": "system",
    "SystemMessagePromptTemplate": "system",
    "DeveloperMessage": "system",
    "from_system": "system",
    "SystemMessageTextContent": "system",
    "SystemPromptPart": "system",
    "HumanMessage": "user",
    "HumanMessagePromptTemplate": "user",
    "UserMessage": "user",
    "TextMessage": "user",
    "from_user": "user",
    "UserPromptPart": "user",
    "ToolMessage": "tool",
    "AIMessage": "assistant",
    "AssistantMessage": "assistant",
    "from_assistant": "assistant",
    "AIMessagePromptTemplate": "assistant",
}
"""Constructors of messages, and the role of their text."""
PAIR_ROLES = {
    "system": "system",
    "developer": "system",
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "placeholder": "assistant",
}
SYSTEM_KEYS = frozenset(
    {
        "system",
        "system_prompt",
        "systemPrompt",
        "system_message",
        "system_instruction",
        "systemInstruction",
        "instructions",
        "appendSystemPrompt",
        "append_system_prompt",
        "append",
    }
)
CARRIERS = SYSTEM_KEYS | {
    *("messages", "prompt", "template", "prefix", "suffix", "system_template", "input", "contents"),
    *("prompt_template", "content", "text", "value", "body", "json", "query", "question"),
    *("user_prompt", "custom_prompt", "generationConfig", "config"),
}
"""Keys and arguments whose text goes on to the model."""
WRITTEN = frozenset(
    {"instructions", "system_prompt", "system_message", "prompt", "system_instruction"}
)
TEMPLATES = frozenset(
    {
        "PromptTemplate",
        "ChatPromptTemplate",
        "TextPrompt",
        "f",
        "from_messages",
        "fromMessages",
        "RichPromptTemplate",
        "QuestionAnswerPrompt",
        "RefinePrompt",
        "StringPromptTemplate",
        "prompt",
        "Content",
        "Part",
        "from_text",
        "TextPart",
        "UserContent",
    }
)
COMPUTED = frozenset(
    {
        *(
            "len",
            "print",
            "range",
            "int",
            "float",
            "bool",
            "dumps",
            "stringify",
            "isoformat",
            "strftime",
        ),
        *(
            "toISOString",
            "map",
            "filter",
            "keys",
            "values",
            "items",
            "split",
            "invoke",
            "ainvoke",
            "run",
        ),
        *(
            "get_buffer_string",
            "input",
            "sorted",
            "zip",
            "enumerate",
            "sum",
            "max",
            "min",
        ),
        *(
            "create",
            "query",
            "retrieve",
            "search",
            "similarity_search",
            "kickoff",
            "fetch",
            "generate",
        ),
    }
)
"""Functions whose result is data."""
FETCHING = re.compile(
    r"_?(?:a?fetch|load|search|query|retrieve|read|scrape|crawl|download|look_?up|list)(?:_|[A-Z]|$)"
)
"""Names of functions whose result is data where it fills a slot."""


def role_of(text: str, otherwise: str) -> str:
    """Role of a message, by the word for it."""
    return {
        "system": "system",
        "developer": "system",
        "user": "user",
        "human": "user",
        "assistant": "assistant",
        "ai": "assistant",
        "model": "assistant",
        "tool": "tool",
        "tool_result": "tool",
        "function": "tool",
    }.get(text.lower(), otherwise)
