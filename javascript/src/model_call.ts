/** Records one call of a model. Never throws, and changes nothing of what it is given. */

import { diag } from "@opentelemetry/api";
import type { Assembly } from "./chat_stream";
import { boundedJson, mapping, type Json } from "./json";
import type { ModelApi } from "./model_apis";
import { begin, type Step } from "./step";

const BROKEN_OFF = "ratchet.broken_off";
const FIRST_CHUNK = "gen_ai.response.time_to_first_chunk";

/** A call of a model: its span. */
export class ModelCall {
  readonly #step: Step;
  readonly #assembly: Assembly;
  readonly #begun = performance.now();
  #isFirst = true;
  #over = false;

  constructor(
    private readonly api: ModelApi,
    provider: string,
  ) {
    this.#step = begin({
      name: api.operation,
      attributes: {
        "gen_ai.operation.name": api.operation,
        "gen_ai.provider.name": provider,
        "ratchet.model_api": api.name,
      },
      inputKey: "ratchet.input",
      outputKey: "ratchet.output",
      sideEffects: false,
      isCall: false,
    });
    this.#assembly = api.assembly();
  }

  /** Takes the request. */
  asks(request: Json): void {
    quietly(() => {
      if (typeof request["model"] === "string") {
        this.#step.rename(`${this.api.operation} ${request["model"]}`);
        this.#step.set("gen_ai.request.model", request["model"]);
      }
      if (request["stream"] === true) this.#step.set("gen_ai.request.stream", true);
      this.#step.text("ratchet.input", () => boundedJson(request, this.api.lists));
    });
  }

  /** Makes the call the current step while a function runs. */
  within<T>(run: () => T): T {
    return this.#step.within(run);
  }

  /** Takes an event of a streamed answer. */
  add(event: unknown): void {
    if (this.#isFirst) this.#step.set(FIRST_CHUNK, (performance.now() - this.#begun) / 1_000);
    this.#isFirst = false;
    quietly(() => this.#assembly.add(mapping(event)));
  }

  /** Ends the call with its whole answer. */
  answered(answer: unknown): void {
    this.#end(mapping(answer), false);
  }

  /**
   * Ends the call with what was streamed.
   *
   * @param isLeft Whether its reader left it, and may have missed the usage.
   */
  streamed(isLeft: boolean): void {
    const { begun, complete } = this.#assembly;
    const answer = this.#assembly.answer();
    const isWhole = complete && (!isLeft || Object.keys(mapping(answer["usage"])).length > 0);
    this.#end(answer, !isWhole && (begun || isLeft));
  }

  /** Ends the call with an error. */
  failed(error: unknown): void {
    if (this.#over) return;
    const { begun, complete } = this.#assembly;
    // A provider goes on with a call whose caller has left, and charges for it.
    const brokenOff = wasUnderWay(error) || (begun && !complete);
    this.#tell(this.#assembly.answer(), brokenOff);
    this.#over = true;
    this.#step.failed(error);
  }

  /** Ends the call where its answer is read by somebody else. */
  left(): void {
    this.#end({}, false);
  }

  #end(answer: Json, brokenOff: boolean): void {
    if (this.#over) return;
    this.#over = true;
    this.#tell(answer, brokenOff);
    this.#step.end();
  }

  #tell(answer: Json, brokenOff: boolean): void {
    quietly(() => {
      if (brokenOff) this.#step.set(BROKEN_OFF, true);
      if (!Object.keys(answer).length) return;
      this.#step.setAttributes(this.api.told(answer));
      const content = this.api.content(answer);
      if (content) this.#step.text("ratchet.output", () => boundedJson(content, ["output", "content", "choices"]));
    });
  }
}

/** Whether an error ended a call that the provider may have gone on with. */
function wasUnderWay(error: unknown): boolean {
  const kinds = [error, (error as { cause?: unknown } | null)?.cause].map((each) => String(each?.constructor.name));
  return kinds.some((kind) => /Timeout|Abort/.test(kind) && !/ConnectTimeout/.test(kind));
}

function quietly(run: () => void): void {
  try {
    run();
  } catch (error) {
    diag.info("ratchet: a model call cannot be recorded whole.", String(error));
  }
}
