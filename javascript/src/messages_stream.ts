/** Merges the events of Anthropic's streamed messages, as `ratchet.observe.model_apis.messages` does. */

import { byPlace, grown, type Assembly } from "./chat_stream";
import { count, GrowingText, items, mapping, MAX_ITEMS, type Json } from "./json";

export class MessagesAssembly implements Assembly {
  readonly #answer: Json = {};
  readonly #usage: Json = {};
  readonly #blocks: Block[] = [];
  /** The newest block of each index. */
  readonly #at = new Map<number, Block>();

  add(event: Json): void {
    switch (event["type"]) {
      case "message_start": {
        const message = mapping(event["message"]);
        for (const key of ["id", "model", "role", "stop_reason"]) this.#answer[key] = message[key];
        Object.assign(this.#usage, mapping(message["usage"]));
        break;
      }
      case "content_block_start":
        this.#begin(event)?.begin(mapping(event["content_block"]));
        break;
      case "content_block_delta":
        (this.#newest(event) ?? this.#begin(event))?.add(mapping(event["delta"]));
        break;
      case "message_delta": {
        const reason = mapping(event["delta"])["stop_reason"];
        if (reason) this.#answer["stop_reason"] = reason;
        // Counts are cumulative: the last one of each kind is valid.
        for (const [key, value] of Object.entries(mapping(event["usage"]))) if (value != null) this.#usage[key] = value;
        break;
      }
      case "error":
        this.#answer["error"] = event["error"];
    }
  }

  /** The block that a delta continues: of its index, or without one the newest. */
  #newest(event: Json): Block | undefined {
    const index = count(event["index"]);
    return index === undefined ? this.#blocks.at(-1) : this.#at.get(index);
  }

  /** A new block, also under an index that another one had. */
  #begin(event: Json): Block | undefined {
    if (this.#blocks.length >= MAX_ITEMS) return undefined;
    const index = count(event["index"]);
    const block = new Block(index ?? this.#blocks.at(-1)?.place ?? 0);
    this.#blocks.push(block);
    if (index !== undefined) this.#at.set(index, block);
    return block;
  }

  get begun(): boolean {
    return this.#blocks.length > 0 || "id" in this.#answer;
  }

  get complete(): boolean {
    return Boolean(this.#answer["stop_reason"]);
  }

  answer(): Json {
    const answer = { ...this.#answer };
    if (this.#blocks.length) answer["content"] = byPlace(this.#blocks).map((block) => block.whole());
    if (Object.keys(this.#usage).length) answer["usage"] = this.#usage;
    return answer;
  }
}

/** Type of a block whose start is missing, by the field that grows. */
const TYPE_OF_DELTA: Readonly<Record<string, string>> = {
  text: "text",
  thinking: "thinking",
  partial_json: "tool_use",
};

/** One content block. */
class Block {
  #start: Json = {};
  readonly #grown = new Map<string, GrowingText>();
  #citations: unknown[] = [];

  /** @param place Its index among the blocks of the message. */
  constructor(readonly place: number) {}

  begin(block: Json): void {
    this.#start = block;
    for (const key of ["text", "thinking", "content"]) {
      if (typeof block[key] === "string") grown(this.#grown, key, () => new GrowingText()).add(block[key]);
    }
    this.#citations = [...items(block["citations"])];
  }

  add(delta: Json): void {
    // Each type of delta has one field, of the name of the block's field that grows.
    for (const [key, value] of Object.entries(delta)) {
      if (key === "citation") {
        if (this.#citations.length < MAX_ITEMS) this.#citations.push(value);
      } else if (key !== "type" && typeof value === "string") {
        if (this.#grown.has(key) || this.#grown.size < MAX_ITEMS)
          grown(this.#grown, key, () => new GrowingText()).add(value);
      }
    }
  }

  whole(): Json {
    const block = { ...this.#start };
    for (const [key, growing] of this.#grown) {
      if (!growing.size) continue;
      block[key === "partial_json" ? "input" : key] = growing.text;
      block["type"] ??= TYPE_OF_DELTA[key];
    }
    if (this.#citations.length) block["citations"] = this.#citations;
    return block;
  }
}
