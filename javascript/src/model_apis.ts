/** The APIs of model providers whose calls are recorded, and what their answers tell besides content. */

import type { Attributes } from "@opentelemetry/api";
import { ChatAssembly, type Assembly } from "./chat_stream";
import { items, mapping, name, type Json } from "./json";
import { MessagesAssembly } from "./messages_stream";
import { usageOf, usageOfChunk, usageOfMessages, WEB_SEARCHES } from "./model_usage";
import { ResponsesAssembly } from "./responses_stream";

/** One API of a provider. */
export interface ModelApi {
  /** Its name at Ratchet's server, which reads requests and answers. */
  readonly name: string;
  readonly operation: "chat" | "text_completion" | "embeddings";
  /** Lists of a request that may be too long to be recorded whole. */
  readonly lists: readonly string[];
  /** Whether a stream reports usage only if the request asks for it by `stream_options`. */
  readonly asksForUsage: boolean;
  /** A new assembly for a streamed answer. */
  assembly(): Assembly;
  /** What an answer tells besides content: model, usage, why it ended. */
  told(answer: Json): Attributes;
  /** What of an answer is recorded as content. */
  content(answer: Json): Json | undefined;
}

const CHAT: ModelApi = {
  name: "openai/chat/completions",
  operation: "chat",
  lists: ["messages"],
  asksForUsage: true,
  assembly: () => new ChatAssembly(),
  told: toldByChat,
  content: (answer) => answer,
};

const COMPLETIONS: ModelApi = { ...CHAT, name: "openai/completions", operation: "text_completion", lists: ["prompt"] };

const EMBEDDINGS: ModelApi = {
  ...CHAT,
  name: "openai/embeddings",
  operation: "embeddings",
  lists: ["input"],
  told: (answer) => {
    const vector = mapping(items(answer["data"])[0])["embedding"];
    // In base64 they are floats of 32 bits.
    const size =
      typeof vector === "string" ? Math.floor((vector.replace(/=+$/, "").length * 3) / 16) : items(vector).length;
    return { ...toldByChat(answer), ...(size ? { "gen_ai.embeddings.dimension.count": size } : {}) };
  },
  content: () => undefined,
};

const RESPONSES: ModelApi = {
  name: "openai/responses",
  operation: "chat",
  lists: ["input"],
  asksForUsage: false,
  assembly: () => new ResponsesAssembly(),
  told: (answer) => {
    const usage = usageOf(mapping(answer["usage"]));
    const searches = items(answer["output"]).filter((item) => isWebSearch(mapping(item))).length;
    const reason = name(mapping(answer["incomplete_details"])["reason"]) || name(answer["status"]);
    return {
      ...namesOf(answer),
      ...(searches && Object.keys(usage).length ? { [WEB_SEARCHES]: searches } : {}),
      ...usage,
      ...(reason ? { "gen_ai.response.finish_reasons": [reason] } : {}),
    };
  },
  content: (answer) => answer,
};

const MESSAGES: ModelApi = {
  name: "anthropic/messages",
  operation: "chat",
  lists: ["messages"],
  asksForUsage: false,
  assembly: () => new MessagesAssembly(),
  told: (answer) => {
    const reason = name(answer["stop_reason"]);
    return {
      ...namesOf(answer),
      ...usageOfMessages(mapping(answer["usage"])),
      ...(reason ? { "gen_ai.response.finish_reasons": [reason] } : {}),
    };
  },
  content: (answer) => answer,
};

/** APIs by the path of their requests, below the version. */
export const OPENAI: Readonly<Record<string, ModelApi>> = {
  "chat/completions": CHAT,
  completions: COMPLETIONS,
  embeddings: EMBEDDINGS,
  responses: RESPONSES,
};
export const ANTHROPIC: Readonly<Record<string, ModelApi>> = { messages: MESSAGES };

function namesOf(answer: Json): Attributes {
  const told: Attributes = {};
  if (name(answer["id"])) told["gen_ai.response.id"] = name(answer["id"]);
  if (name(answer["model"])) told["gen_ai.response.model"] = name(answer["model"]);
  if (name(answer["service_tier"])) told["openai.response.service_tier"] = name(answer["service_tier"]);
  return told;
}

function toldByChat(answer: Json): Attributes {
  const reasons = items(answer["choices"]).map((choice) => name(mapping(choice)["finish_reason"]));
  return {
    ...namesOf(answer),
    ...usageOf(usageOfChunk(answer) ?? {}),
    ...(reasons.some(Boolean) ? { "gen_ai.response.finish_reasons": reasons } : {}),
  };
}

/** Whether an item is a search of the web, which is charged; opening a page is not. */
function isWebSearch(item: Json): boolean {
  return (
    item["type"] === "web_search_call" &&
    [undefined, null, "search"].includes(mapping(item["action"])["type"] as undefined)
  );
}
