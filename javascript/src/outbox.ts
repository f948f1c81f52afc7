/** What is not sent yet: bounded, sent in batches in the background, and again after a failure. */

import type { Attributes } from "@opentelemetry/api";
import { warnOnce } from "./errors";
import type { Answer, Connection } from "./http";
import { exportRequest, START, weightOf, type StepSpan } from "./otlp";

const GATHER_MS = 300;
const MAX_SPANS = 20_000;
const MAX_CHARACTERS = 64_000_000;
const MAX_FEEDBACK = 1_000;
const BATCH_SPANS = 512;
const BATCH_CHARACTERS = 4_000_000;
const BATCH_FEEDBACK = 100;
const TIMEOUT_MS = 10_000;
const LONGEST_PAUSE_MS = 60_000;

/** Counts of what this process sent. */
export interface Counts {
  /** Spans and items of feedback that the server has stored. */
  readonly sent: number;
  readonly waiting: number;
  /** Those that were lost: there were too many, or the server refused them. */
  readonly dropped: number;
}

/** A request that is still to be made when the process ends. */
export interface Unsent {
  readonly path: string;
  readonly body: string;
}

/** What became of a batch. */
type Outcome = "stored" | "refused" | "too large" | "away";

/** Spans and feedback on their way to a server. */
export class Outbox {
  #spans: StepSpan[] = [];
  /** Of each span, in characters. */
  #weights: number[] = [];
  #feedback: object[] = [];
  /** The batch under way. */
  #sentNow: Unsent | undefined;
  #sentCount = 0;
  #characters = 0;
  #batch = BATCH_SPANS;
  #sent = 0;
  #dropped = 0;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<boolean> | undefined;
  #closed = false;

  /**
   * @param connection To the server.
   * @param sender Attributes of the sender of spans.
   */
  constructor(
    private readonly connection: Connection,
    private readonly sender: Attributes,
  ) {}

  /** Takes a span that has ended. */
  addSpan(span: StepSpan): void {
    if (this.#closed) return;
    const weight = weightOf(span);
    this.#spans.push(span);
    this.#weights.push(weight);
    this.#characters += weight;
    if (this.#spans.length > MAX_SPANS || this.#characters > MAX_CHARACTERS) this.#shed();
    const urgent = span.name === START || this.#spans.length >= BATCH_SPANS;
    this.#schedule(urgent ? 0 : GATHER_MS);
  }

  /** Takes an item of feedback; false if there is no room for it. */
  addFeedback(item: object): boolean {
    if (this.#closed || this.#feedback.length >= MAX_FEEDBACK) return false;
    this.#feedback.push(item);
    this.#schedule(0);
    return true;
  }

  /** Counts so far. */
  counts(): Counts {
    return { sent: this.#sent, waiting: this.#waiting(), dropped: this.#dropped };
  }

  /**
   * Sends everything now.
   *
   * @param timeoutMs Longest time to wait, in milliseconds.
   * @returns Whether all of it is stored. The process stays alive until then.
   */
  async flush(timeoutMs: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(resolve, timeoutMs, false);
    });
    const sent = (async (): Promise<boolean> => {
      await this.#running; // what was added since then is not in it
      return this.#waiting() === 0 || this.#run();
    })();
    try {
      return await Promise.race([sent, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** The requests that are still to be made; nothing is sent afterwards. */
  close(): Unsent[] {
    this.#closed = true;
    clearTimeout(this.#timer);
    const unsent: Unsent[] = this.#sentNow ? [this.#sentNow] : [];
    this.#sentNow = undefined;
    for (let batch = this.#next(); batch; batch = this.#next()) unsent.push(batch.request);
    return unsent;
  }

  #waiting(): number {
    return this.#spans.length + this.#feedback.length + this.#sentCount;
  }

  /** Drops the oldest spans. */
  #shed(): void {
    const before = this.#spans.length;
    let first = 0;
    while (
      first < before &&
      (before - first > MAX_SPANS * 0.95 || this.#characters > MAX_CHARACTERS * 0.9)
    ) {
      this.#characters -= this.#weights[first++] as number;
    }
    this.#spans = this.#spans.slice(first);
    this.#weights = this.#weights.slice(first);
    this.#dropped += first;
  }

  #schedule(delayMs: number): void {
    if (this.#running || this.#failures) return; // which go on by themselves
    if (this.#timer && delayMs) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#run(), delayMs);
    this.#timer.unref();
  }

  /** Sends until nothing is left, or a batch fails. Never rejects. */
  #run(): Promise<boolean> {
    this.#running ??= this.#sendAll().finally(() => {
      this.#running = undefined;
      clearTimeout(this.#timer);
      this.#timer = undefined;
      if (this.#waiting() && !this.#closed) {
        const pause = Math.min(1_000 * 2 ** (this.#failures - 1), LONGEST_PAUSE_MS);
        const delay = this.#failures ? pause * (0.8 + 0.2 * Math.random()) : GATHER_MS;
        this.#timer = setTimeout(() => void this.#run(), delay);
        this.#timer.unref();
      }
    });
    return this.#running;
  }

  async #sendAll(): Promise<boolean> {
    for (let batch = this.#next(); batch; batch = this.#next()) {
      const { request, count, putBack } = batch;
      this.#sentNow = request;
      this.#sentCount = count;
      const outcome = await this.#post(request);
      this.#sentNow = undefined;
      this.#sentCount = 0;
      if (outcome === "stored") {
        this.#sent += count;
        this.#failures = 0;
        this.#batch = BATCH_SPANS;
      } else if (outcome === "too large" && count > 1) {
        this.#batch = Math.ceil(count / 2);
        putBack();
      } else if (outcome === "away") {
        this.#failures += 1;
        putBack();
        return false;
      } else {
        this.#dropped += count;
      }
    }
    return true;
  }

  /** The next batch, taken out; feedback first. */
  #next(): { request: Unsent; count: number; putBack: () => void } | undefined {
    if (this.#feedback.length) {
      const items = this.#feedback.splice(0, Math.min(BATCH_FEEDBACK, this.#batch));
      return {
        request: { path: "/v1/feedback", body: JSON.stringify({ feedback: items }) },
        count: items.length,
        putBack: () => this.#feedback.unshift(...items),
      };
    }
    if (!this.#spans.length) return undefined;
    let count = 0;
    let weight = 0;
    while (count < Math.min(this.#batch, this.#spans.length)) {
      weight += this.#weights[count] as number;
      if (count && weight > BATCH_CHARACTERS) break;
      count++;
    }
    const taken = this.#spans.splice(0, count);
    const weights = this.#weights.splice(0, count);
    const characters = weights.reduce((sum, each) => sum + each, 0);
    this.#characters -= characters;
    const body = exportRequest(taken, this.sender);
    return {
      request: { path: "/v1/traces", body },
      count,
      putBack: () => {
        this.#spans = taken.concat(this.#spans);
        this.#weights = weights.concat(this.#weights);
        this.#characters += characters;
        if (this.#spans.length > MAX_SPANS || this.#characters > MAX_CHARACTERS) this.#shed();
      },
    };
  }

  async #post(request: Unsent): Promise<Outcome> {
    let answer: Answer;
    try {
      answer = await this.connection.ask({ method: "POST", ...request, timeoutMs: TIMEOUT_MS });
    } catch {
      return "away";
    }
    const { status } = answer;
    if (status >= 200 && status < 300) return "stored";
    if (status === 413) return "too large";
    if (status === 401 || status === 403) {
      warnOnce(
        `Ratchet's server refuses the key (${status}); spans wait, and the oldest are dropped.` +
          " Set RATCHET_KEY to a key of the scope `ingest`.",
      );
      return "away";
    }
    if (status === 408 || status === 429 || status >= 500) return "away";
    warnOnce(`Ratchet's server refuses ${request.path} (${status}): ${answer.body.slice(0, 300)}`);
    return "refused";
  }
}
