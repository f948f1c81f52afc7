/**
 * Merges the events of OpenAI's streamed responses, as `ratchet.observe.model_apis.responses` does.
 *
 * The last event has the whole answer; earlier ones count only where it lacks the output.
 */

import { byPlace, grown, textsOf, type Assembly } from "./chat_stream";
import { count, GrowingText, items, mapping, MAX_ITEMS, name, type Json } from "./json";

const ENDS = new Set(["response.completed", "response.incomplete", "response.failed"]);
const BEGINNINGS = new Set(["response.created", "response.in_progress", "response.queued"]);

export class ResponsesAssembly implements Assembly {
  #answer: Json = {};
  readonly #items: Item[] = [];
  readonly #byId = new Map<string, Item>();
  /** The newest item of each index. */
  readonly #at = new Map<number, Item>();
  #ended = false;

  add(event: Json): void {
    const kind = event["type"];
    if (ENDS.has(kind as string)) {
      this.#answer = mapping(event["response"]);
      this.#ended = true;
      if (items(this.#answer["output"]).length) this.#items.length = 0;
    } else if (kind === "error" || event["error"]) {
      this.#answer = { ...this.#answer, error: event["error"] ?? { ...event } };
    } else if (!this.#ended && typeof kind === "string") {
      if (BEGINNINGS.has(kind)) this.#answer = mapping(event["response"]);
      else this.#item(kind, event)?.add(kind, event);
    }
  }

  /** The item that an event is about: by its id, then by its index, then the newest. */
  #item(kind: string, event: Json): Item | undefined {
    let added = kind === "response.output_item.added";
    const index = count(event["output_index"]);
    if (index === undefined && !("item_id" in event) && !("item" in event)) {
      if (!kind.startsWith("response.audio.")) return undefined; // which no index comes with
      added = !this.#items.length;
    }
    const id = name(event["item_id"]) || name(mapping(event["item"])["id"]);
    const newest = this.#items.at(-1);
    let item = id ? this.#byId.get(id) : undefined;
    if (!item && !added) {
      item = index === undefined ? newest : this.#at.get(index);
      if (item?.done) item = undefined;
    }
    if (!item) {
      if (this.#items.length >= MAX_ITEMS) return undefined;
      item = new Item(index ?? newest?.place ?? 0);
      this.#items.push(item);
    }
    if (id) this.#byId.set(id, item);
    if (index !== undefined) this.#at.set(index, item);
    return item;
  }

  get begun(): boolean {
    return this.#items.length > 0 || items(this.#answer["output"]).length > 0;
  }

  get complete(): boolean {
    return this.#ended && Object.keys(mapping(this.#answer["usage"])).length > 0;
  }

  answer(): Json {
    if (!this.#items.length) return this.#answer;
    return { ...this.#answer, output: byPlace(this.#items).map((item) => item.whole()) };
  }
}

/** Events whose text grows in a part of a list: the list, the type of the part, and its field. */
const LISTS: Readonly<Record<string, readonly [list: string, type: string, field: string]>> = {
  "response.output_text": ["content", "output_text", "text"],
  "response.refusal": ["content", "refusal", "refusal"],
  "response.audio.transcript": ["content", "output_audio", "transcript"],
  "response.audio": ["content", "output_audio", "data"],
  "response.reasoning": ["content", "reasoning_text", "text"], // older names
  "response.reasoning_summary": ["summary", "summary_text", "text"],
  "response.reasoning_text": ["content", "reasoning_text", "text"],
  "response.reasoning_summary_text": ["summary", "summary_text", "text"],
};

/** Events whose text grows in a field of the item: the type of the item, and the field. */
const FIELDS: Readonly<Record<string, readonly [type: string, field: string]>> = {
  "response.function_call_arguments": ["function_call", "arguments"],
  "response.mcp_call_arguments": ["mcp_call", "arguments"],
  "response.mcp_call.arguments": ["mcp_call", "arguments"],
  "response.custom_tool_call_input": ["custom_tool_call", "input"],
  "response.code_interpreter_call_code": ["code_interpreter_call", "code"],
  "response.code_interpreter_call.code": ["code_interpreter_call", "code"],
  "response.apply_patch_call_operation_diff": ["apply_patch_call", "diff"],
};

interface Part {
  readonly list: string;
  readonly place: number;
  readonly type: string;
  readonly texts: Map<string, GrowingText>;
  readonly annotations: unknown[];
}

/** One output item, possibly incomplete. */
class Item {
  done = false;
  #item: Json = {};
  readonly #fields = new Map<string, GrowingText>();
  readonly #parts = new Map<string, Part>();

  /** @param place Its index in the output. */
  constructor(readonly place: number) {}

  add(kind: string, event: Json): void {
    if (kind === "response.output_item.added" || kind === "response.output_item.done") {
      this.#item = mapping(event["item"]);
      this.done = kind.endsWith("done");
      return;
    }
    const stem = kind.slice(0, kind.lastIndexOf("."));
    const isDelta = kind.endsWith(".delta");
    const [type, field] = FIELDS[stem] ?? [];
    const [list, part, own] = LISTS[stem] ?? [];
    if (isDelta && field) {
      this.#item = { type, ...this.#item };
      grown(this.#fields, field, () => new GrowingText()).add(event["delta"]);
    } else if (isDelta && list && part && own) {
      const texts = this.#part(list, part, event)?.texts;
      if (texts) grown(texts, own, () => new GrowingText()).add(event["delta"]);
    } else if (kind === "response.output_text.annotation.added") {
      const annotations = this.#part("content", "output_text", event)?.annotations;
      if (annotations && annotations.length < MAX_ITEMS) annotations.push(event["annotation"]);
    }
  }

  #part(list: string, type: string, event: Json): Part | undefined {
    const place = count(event[list === "summary" ? "summary_index" : "content_index"]) ?? 0;
    const key = `${list} ${place} ${type}`;
    if (!this.#parts.has(key) && this.#parts.size >= MAX_ITEMS) return undefined;
    return grown(this.#parts, key, () => ({ list, place, type, texts: new Map(), annotations: [] }));
  }

  whole(): Json {
    if (this.done) return this.#item;
    const item = { ...this.#item, ...textsOf(this.#fields) };
    const lists: Record<string, Json[]> = {};
    for (const { list, type, texts, annotations } of byPlace([...this.#parts.values()])) {
      if (list === "summary" || type === "reasoning_text") item["type"] ??= "reasoning";
      const part: Json = { type, ...textsOf(texts) };
      if (annotations.length) part["annotations"] = annotations;
      (lists[list] ??= []).push(part);
    }
    item["type"] ??= "message";
    return { ...item, ...lists, type: item["type"] };
  }
}
