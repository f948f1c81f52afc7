/** Merges the chunks of a streamed chat completion, as `ratchet.observe.model_apis.chat` does. */

import { count, GrowingText, items, mapping, MAX_ITEMS, name, type Json } from "./json";
import { usageOfChunk } from "./model_usage";

/** Accumulates the events of a streamed answer. */
export interface Assembly {
  /** Adds an event. */
  add(event: Json): void;
  /** Whether the model has begun to answer. */
  readonly begun: boolean;
  /** Whether the answer has its end, so that the usage it reports is that of all of it. */
  readonly complete: boolean;
  /** The answer so far, as if it had not been streamed. */
  answer(): Json;
}

const OF_ANSWER = ["id", "model", "service_tier", "error"];

/** The chunks of a chat completion, or of a text completion. */
export class ChatAssembly implements Assembly {
  readonly #answer: Json = {};
  readonly #choices = new Map<number, Choice>();
  #ended = false;

  add(event: Json): void {
    for (const key of OF_ANSWER) if (event[key] != null) this.#answer[key] = event[key];
    const reported = usageOfChunk(event);
    if (reported) {
      this.#answer["usage"] = reported;
      this.#ended = !items(event["choices"]).length;
    }
    for (const each of items(event["choices"]).map(mapping)) {
      const own = usageOfChunk(each); // Moonshot
      if (own) this.#answer["usage"] = own;
      const index = count(each["index"]) ?? 0;
      let choice = this.#choices.get(index);
      if (!choice) {
        if (this.#choices.size >= MAX_ITEMS) continue;
        this.#choices.set(index, (choice = new Choice()));
      }
      choice.add(each);
    }
  }

  get begun(): boolean {
    return this.#choices.size > 0;
  }

  get complete(): boolean {
    return this.#ended || (this.begun && [...this.#choices.values()].every((choice) => choice.finishReason));
  }

  answer(): Json {
    const sorted = [...this.#choices].sort(([one], [other]) => one - other);
    const choices = sorted.map(([index, choice]) => ({ index, ...choice.whole() }));
    return choices.length ? { ...this.#answer, choices } : { ...this.#answer };
  }
}

/** Texts of a message; reasoning_content: DeepSeek and vLLM; reasoning: newer ones, and OpenRouter. */
const WORDS = new Set(["refusal", "reasoning_content", "reasoning"]);
const PARTS = new Set(["content", "reasoning_details"]);
const LISTS = new Set(["annotations", "images"]);

/** One choice of a streamed answer. */
class Choice {
  finishReason = "";
  #role = "";
  /** Of a text completion. */
  readonly #text = new GrowingText();
  readonly #words = new Map<string, GrowingText>();
  readonly #parts = new Map<string, StreamedParts>();
  readonly #audio = new Map<string, GrowingText>();
  readonly #lists = new Map<string, unknown[]>();
  readonly #calls = new StreamedCalls();
  #functionCall: StreamedCall | undefined;

  add(choice: Json): void {
    this.#text.add(choice["text"]);
    for (const [key, value] of Object.entries(mapping(choice["delta"]))) {
      if (!value) continue;
      if (PARTS.has(key)) grown(this.#parts, key, () => new StreamedParts()).add(value);
      else if (WORDS.has(key)) grown(this.#words, key, () => new GrowingText()).add(value);
      else if (key === "role") this.#role = name(value) || this.#role;
      else if (key === "tool_calls") for (const call of items(value)) this.#calls.add(mapping(call));
      else if (key === "function_call") (this.#functionCall ??= new StreamedCall(0)).add({ function: value });
      else if (key === "audio") {
        for (const field of ["data", "transcript"]) {
          const more = mapping(value)[field];
          if (more) grown(this.#audio, field, () => new GrowingText()).add(more);
        }
      } else if (LISTS.has(key)) {
        const list = grown(this.#lists, key, (): unknown[] => []);
        list.push(...items(value).slice(0, MAX_ITEMS - list.length));
      }
    }
    this.finishReason = name(choice["finish_reason"]) || this.finishReason;
  }

  whole(): Json {
    if (this.#text.size) return { text: this.#text.text, finish_reason: this.finishReason };
    const message: Json = { role: this.#role || "assistant" };
    for (const [key, growing] of this.#words) if (growing.size) message[key] = growing.text;
    for (const [key, parts] of this.#parts) if (parts.size) message[key] = parts.whole();
    for (const [key, list] of this.#lists) message[key] = list;
    if (this.#audio.size) message["audio"] = textsOf(this.#audio);
    if (this.#calls.size) message["tool_calls"] = this.#calls.whole();
    if (this.#functionCall) message["function_call"] = this.#functionCall.function();
    return { message, finish_reason: this.finishReason };
  }
}

/** The tool calls of a message: deltas are told apart by id, then by index, then by arrival. */
class StreamedCalls {
  readonly #calls: StreamedCall[] = [];
  readonly #byId = new Map<string, StreamedCall>();
  /** The newest call of each index. */
  readonly #at = new Map<number, StreamedCall>();

  get size(): number {
    return this.#calls.length;
  }

  /** Adds a delta to the call that it continues, or as a new call. */
  add(delta: Json): void {
    const id = name(delta["id"]);
    const index = count(delta["index"]);
    let call = id ? this.#byId.get(id) : undefined;
    if (call && !call.continues("", functionOf(delta))) call = undefined; // its calls have the same id
    if (!call) {
      const newest = this.#calls.at(-1);
      call = index === undefined ? newest : this.#at.get(index);
      if (!call?.continues(id, functionOf(delta))) {
        if (this.#calls.length >= MAX_ITEMS) return;
        // A call without an index stands behind the one before it.
        call = new StreamedCall(index ?? newest?.place ?? 0);
        this.#calls.push(call);
      }
    }
    if (id) this.#byId.set(id, call);
    if (index !== undefined) this.#at.set(index, call);
    call.add(delta);
  }

  whole(): Json[] {
    return byPlace(this.#calls).map((call) => call.whole());
  }
}

class StreamedCall {
  #id = "";
  #tool = "";
  readonly #text = new GrowingText();
  /** Arguments that are no text. */
  #arguments: unknown;

  /** @param place Its index among the calls of the message. */
  constructor(readonly place: number) {}

  /** Whether a delta belongs to this call rather than to a new one; its id if it is not known to. */
  continues(id: string, called: Json): boolean {
    const tool = name(called["name"]);
    let given = argumentsOf(called);
    // Each call names its tool: arguments alone go on, under an id invented for them.
    if (id && this.#id) return !tool && Boolean(given);
    if (!tool || !this.#tool) return true;
    if (typeof given === "string") given = given.trim();
    return tool === this.#tool && !(given && this.#isComplete());
  }

  #isComplete(): boolean {
    if (!this.#text.size) return this.#arguments !== undefined;
    try {
      return /[}\]]$/.test(this.#text.text) && JSON.parse(this.#text.text) !== undefined;
    } catch {
      return false;
    }
  }

  add(delta: Json): void {
    const called = functionOf(delta);
    this.#id ||= name(delta["id"]);
    this.#tool ||= name(called["name"]);
    const given = argumentsOf(called);
    if (typeof given === "string") this.#text.add(given);
    if (typeof given !== "string" && given != null) this.#arguments = given;
    else if (typeof given === "string") this.#arguments ??= "";
  }

  function(): Json {
    return { name: this.#tool, arguments: this.#text.size ? this.#text.text : this.#arguments };
  }

  whole(): Json {
    return { id: this.#id, function: this.function() };
  }
}

function functionOf(call: Json): Json {
  const own = mapping(call["function"]);
  return Object.keys(own).length ? own : mapping(call["custom"]);
}

function argumentsOf(called: Json): unknown {
  return called["arguments"] ?? called["input"];
}

/** Fields of a part that arrive in pieces; all others arrive whole. */
const GROWING = new Set(["text", "thinking", "summary"]);

/** A text, or typed parts such as Mistral's; pieces of the same type, one behind the other, are one. */
class StreamedParts {
  readonly #parts: StreamedPart[] = [];
  #isList = false;
  /** Whether the next text goes on in the last part. */
  #inText = false;

  get size(): number {
    return this.#parts.length;
  }

  add(value: unknown): void {
    if (typeof value === "string") {
      if (this.#inText) (this.#parts.at(-1) as StreamedPart).add({ text: value });
      else this.#add({ type: "text", text: value });
      this.#inText = true;
    } else if (Array.isArray(value)) {
      this.#isList = true;
      this.#inText = false;
      for (const piece of value) this.#add(mapping(piece));
    }
  }

  #add(piece: Json): void {
    let part = this.#continued(piece);
    if (!part) {
      if (this.#parts.length >= MAX_ITEMS) return;
      this.#parts.push((part = new StreamedPart()));
    }
    part.add(piece);
  }

  #continued(piece: Json): StreamedPart | undefined {
    if (!Object.keys(piece).some((key) => GROWING.has(key))) return undefined;
    const index = count(piece["index"]);
    const candidates = index === undefined ? this.#parts.slice(-1) : [...this.#parts].reverse();
    return candidates.find((part) => part.fields["type"] === piece["type"] && part.index === index);
  }

  whole(): string | Json[] {
    const parts = this.#parts.map((part) => part.whole());
    return this.#isList ? parts : name(parts[0]?.["text"]);
  }
}

class StreamedPart {
  readonly fields: Json = {};
  index: number | undefined;
  #begun = false;
  readonly #grown = new Map<string, GrowingText>();
  readonly #nested = new Map<string, StreamedParts>();

  add(piece: Json): void {
    if (!this.#begun) this.index = count(piece["index"]);
    this.#begun = true;
    for (const [key, value] of Object.entries(piece)) {
      if (!GROWING.has(key)) {
        if (value != null) this.fields[key] = value;
      } else if (typeof value === "string") grown(this.#grown, key, () => new GrowingText()).add(value);
      else if (Array.isArray(value)) grown(this.#nested, key, () => new StreamedParts()).add(value);
    }
  }

  whole(): Json {
    const lists = Object.fromEntries(Array.from(this.#nested, ([key, parts]) => [key, parts.whole()]));
    return { ...this.fields, ...textsOf(this.#grown), ...lists };
  }
}

/** The entry of a map, made where it is missing. */
export function grown<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let found = map.get(key);
  if (found === undefined) map.set(key, (found = make()));
  return found;
}

/** Texts by name. */
export function textsOf(growing: Map<string, GrowingText>): Json {
  return Object.fromEntries(Array.from(growing, ([key, { text }]) => [key, text]));
}

/** In the order of their places; of equal places, of their arrival. */
export function byPlace<T extends { readonly place: number }>(entries: readonly T[]): T[] {
  return [...entries].sort((one, other) => one.place - other.place);
}
