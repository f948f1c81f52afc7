/** Token usage that the answers of model APIs report, as `ratchet.observe.model_apis.usage` reads it. */

import type { Attributes } from "@opentelemetry/api";
import { count, mapping, type Json } from "./json";

const INPUT = "gen_ai.usage.input_tokens";
const OUTPUT = "gen_ai.usage.output_tokens";
const CACHE_READ = "gen_ai.usage.cache_read.input_tokens";
const CACHE_WRITE = "gen_ai.usage.cache_creation.input_tokens";
const CACHE_WRITE_1H = "ratchet.usage.cache_creation_1h.input_tokens";
const REASONING = "gen_ai.usage.reasoning.output_tokens";
export const WEB_SEARCHES = "ratchet.usage.web_searches";

/** Paths of each count in the usage of OpenAI's APIs and of those compatible with them. */
const OF_OPENAI: ReadonlyArray<readonly [attribute: string, path: string]> = [
  [INPUT, "prompt_tokens"],
  [INPUT, "input_tokens"],
  [OUTPUT, "completion_tokens"],
  [OUTPUT, "output_tokens"],
  [CACHE_READ, "prompt_tokens_details.cached_tokens"],
  [CACHE_READ, "input_tokens_details.cached_tokens"],
  [CACHE_READ, "input_tokens_details.cache_read_input_tokens"], // Perplexity's responses
  [CACHE_READ, "prompt_cache_hit_tokens"], // DeepSeek
  [CACHE_READ, "cached_tokens"], // Moonshot
  [CACHE_READ, "cached_prompt_text_tokens"], // older xAI
  [CACHE_READ, "cache_read_input_tokens"], // Databricks, LiteLLM
  [CACHE_WRITE, "prompt_tokens_details.cache_write_tokens"],
  [CACHE_WRITE, "input_tokens_details.cache_write_tokens"],
  [CACHE_WRITE, "prompt_tokens_details.cache_creation_tokens"], // LiteLLM
  [CACHE_WRITE, "cache_creation_input_tokens"], // LiteLLM
  [CACHE_WRITE_1H, "prompt_tokens_details.cache_creation_token_details.ephemeral_1h_input_tokens"], // LiteLLM
  [REASONING, "completion_tokens_details.reasoning_tokens"],
  [REASONING, "output_tokens_details.reasoning_tokens"],
  [REASONING, "reasoning_tokens"], // Perplexity, older xAI
  [WEB_SEARCHES, "num_search_queries"], // Perplexity
  [WEB_SEARCHES, "server_tool_use.web_search_requests"], // LiteLLM, OpenRouter
  [WEB_SEARCHES, "tool_calls_details.search_web.invocation"], // Perplexity's responses
];

/** Path of each count in the usage of Anthropic's messages. */
const OF_MESSAGES: ReadonlyArray<readonly [attribute: string, path: string]> = [
  [INPUT, "input_tokens"],
  [OUTPUT, "output_tokens"],
  [CACHE_READ, "cache_read_input_tokens"],
  [CACHE_WRITE, "cache_creation_input_tokens"],
  [CACHE_WRITE_1H, "cache_creation.ephemeral_1h_input_tokens"],
  [REASONING, "output_tokens_details.thinking_tokens"],
  [WEB_SEARCHES, "server_tool_use.web_search_requests"],
];

type Counts = Record<string, number>;

/** The usage that OpenAI's APIs, or compatible ones, report. */
export function usageOf(reported: Json): Attributes {
  const counts = countsAt(reported, OF_OPENAI);
  const { [INPUT]: input = 0, [OUTPUT]: output = 0, [REASONING]: beside = 0 } = counts;
  if ("citation_tokens" in reported) {
    // Perplexity bills three counts that exclude each other.
    counts[OUTPUT] = output + beside + (count(reported["citation_tokens"]) ?? 0);
  } else if (beside && count(reported["total_tokens"]) === input + output + beside) {
    counts[OUTPUT] = output + beside; // xAI counts reasoning beside the output, as the total shows
  }
  return counts;
}

/** The usage that Anthropic's API reports. */
export function usageOfMessages(reported: Json): Attributes {
  const counts = countsAt(reported, OF_MESSAGES);
  // OpenTelemetry's count includes cached tokens, Anthropic's does not.
  if (counts[INPUT] !== undefined) counts[INPUT] += (counts[CACHE_READ] ?? 0) + (counts[CACHE_WRITE] ?? 0);
  return counts;
}

/** The usage in an answer, or in a chunk of it; undefined without one. */
export function usageOfChunk(event: Json): Json | undefined {
  for (const reported of [event["usage"], mapping(event["x_groq"])["usage"]]) {
    const found = mapping(reported);
    if (Object.keys(found).length) return found;
  }
  return undefined;
}

function countsAt(reported: Json, paths: typeof OF_OPENAI): Counts {
  const counts: Counts = {};
  for (const [attribute, path] of paths) {
    let value: unknown = reported;
    for (const step of path.split(".")) value = mapping(value)[step];
    const found = count(value);
    // A server that reports a count twice, for clients of two APIs, means it once.
    if (found !== undefined && found >= (counts[attribute] ?? 0)) counts[attribute] = found;
  }
  return counts;
}
