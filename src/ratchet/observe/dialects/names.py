"""Attribute names of the span model: OpenTelemetry's GenAI conventions, and our own."""

from __future__ import annotations

from typing import Any

from ratchet.observe.model_apis import usage

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
CACHE_WRITE_1H_TOKENS = usage.CACHE_WRITE_1H
WEB_SEARCHES = usage.WEB_SEARCHES
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"
TOOL_NAME = "gen_ai.tool.name"
TOOL_DESCRIPTION = "gen_ai.tool.description"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
AGENT_NAME = "gen_ai.agent.name"
WORKFLOW_NAME = "gen_ai.workflow.name"
CONVERSATION = "gen_ai.conversation.id"
RETRIEVAL_QUERY = "gen_ai.retrieval.query.text"
RETRIEVAL_DOCUMENTS = "gen_ai.retrieval.documents"

INPUT = "ratchet.input"
OUTPUT = "ratchet.output"
"""Input and output as JSON text, for steps other than model and tool calls, which have the names
above."""

JSON_TEXT = frozenset(
    {
        INPUT_MESSAGES,
        OUTPUT_MESSAGES,
        SYSTEM_INSTRUCTIONS,
        TOOL_DEFINITIONS,
        TOOL_ARGUMENTS,
        TOOL_RESULT,
        RETRIEVAL_DOCUMENTS,
    }
)
"""Attributes stored as JSON text; in the conventions they are structured or text."""

PROVIDERS = {
    "aws": "aws.bedrock",
    "az.ai.inference": "azure.ai.inference",
    "az.ai.openai": "azure.ai.openai",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google": "gcp.gen_ai",
    "mistral": "mistral_ai",
    "mistralai": "mistral_ai",
    "vertex_ai": "gcp.vertex_ai",
    "vertexai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""Names of providers in dialects, and in the conventions where they differ."""


def provider(value: Any) -> Any:
    """A provider's name in the conventions."""
    if not isinstance(value, str):
        return value
    name = value.lower()
    return PROVIDERS.get(name, name)
