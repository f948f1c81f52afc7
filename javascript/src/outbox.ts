/** What is not sent yet: bounded, sent in batches in the background, and again after a failure. */

import type { Attributes } from "@opentelemetry/api";
import type { Answer, Connection } from "./http";
import { Losses, total, type Amount } from "./losses";
import { exportRequest, START, weightOf, type StepSpan } from "./otlp";
import type { Redact } from "./redaction";
import { verdictOf, type Verdict } from "./verdict";

const GATHER_MS = 300;
const MAX_SPANS = 20_000;
const MAX_CHARACTERS = 64_000_000;
const MAX_FEEDBACK = 1_000;
const BATCH_SPANS = 512;
const BATCH_CHARACTERS = 4_000_000;
const BATCH_FEEDBACK = 100;
const TIMEOUT_MS = 10_000;
const LONGEST_PAUSE_MS = 60_000;

/** Counts of what this process recorded; together they are all of it. */
export interface Counts {
  /** Spans and items of feedback that the server has stored. */
  readonly sent: number;
  readonly waiting: number;
  /** Those that are lost: there were too many, or the server refused them. */
  readonly dropped: number;
}

/** A request to be made. */
export interface Unsent {
  readonly path: string;
  readonly body: string;
}

/** Makes requests while this thread waits; the answers, or the errors that came instead. */
export type PostNow = (requests: readonly Unsent[]) => Array<Answer | Error>;

interface Batch {
  readonly kind: keyof Amount;
  readonly request: Unsent;
  readonly count: number;
  putBack(): void;
}

/** Spans and feedback on their way to a server. */
export class Outbox {
  #spans: StepSpan[] = [];
  /** Of each span, in characters. */
  #weights: number[] = [];
  #feedback: object[] = [];
  /** The batch under way. */
  #current: Batch | undefined;
  readonly #losses = new Losses(() => this.#waiting());
  #characters = 0;
  #batch = BATCH_SPANS;
  #sent = 0;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<boolean> | undefined;
  #closed = false;

  /**
   * @param connection To the server.
   * @param sender Attributes of the sender of spans.
   * @param redact Removes what must not leave the process.
   */
  constructor(
    private readonly connection: Connection,
    private readonly sender: Attributes,
    private readonly redact: Redact | undefined,
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
    if (this.#closed) return false;
    if (this.#feedback.length >= MAX_FEEDBACK) {
      this.#losses.add("feedback", 1, this.#losses.trouble || this.#tooFast());
      return false;
    }
    this.#feedback.push(item);
    this.#schedule(0);
    return true;
  }

  /** Counts so far. */
  counts(): Counts {
    return { sent: this.#sent, waiting: total(this.#waiting()), dropped: this.#losses.count };
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
      return total(this.#waiting()) === 0 || this.#run();
    })();
    try {
      return await Promise.race([sent, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Sends everything while this thread waits; what is not stored waits on. */
  sendNow(post: PostNow): void {
    for (let again = true; again;) {
      again = false;
      const batches = this.#takeAll();
      const answers = post(batches.map(({ request }) => request));
      // The oldest is put back last, and stands first.
      for (let index = batches.length - 1; index >= 0; index--) {
        const batch = batches[index] as Batch;
        const { outcome } = this.#judge(batch, answers[index] as Answer | Error);
        const tooLarge = outcome === "too large" && batch.count > 1;
        if (tooLarge) this.#batch = Math.ceil(batch.count / 2);
        if (tooLarge || outcome === "away") batch.putBack();
        again ||= tooLarge;
      }
    }
  }

  /**
   * Ends: nothing is sent afterwards, and what is still here is lost. Says what was lost in all.
   *
   * @param now Whether the process ends with this turn.
   */
  close(now: boolean): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    const why =
      this.#losses.trouble ||
      `they were not stored at ${this.connection.server} in time.` +
        " `await handle.shutdown(timeoutMs)` before the end waits longer.";
    const { spans, feedback } = this.#waiting();
    this.#current = undefined;
    this.#spans = [];
    this.#weights = [];
    this.#feedback = [];
    this.#losses.trouble = "";
    this.#losses.add("spans", spans, why);
    this.#losses.add("feedback", feedback, why);
    this.#losses.end(now);
  }

  #waiting(): Amount {
    const { kind, count = 0 } = this.#current ?? {};
    return {
      spans: this.#spans.length + (kind === "spans" ? count : 0),
      feedback: this.#feedback.length + (kind === "feedback" ? count : 0),
    };
  }

  #tooFast(): string {
    return `they come faster than ${this.connection.server} stores them, and ${MAX_SPANS.toLocaleString("en")} wait at most.`;
  }

  /** Drops the oldest spans. */
  #shed(): void {
    const before = this.#spans.length;
    let first = 0;
    while (first < before && (before - first > MAX_SPANS * 0.95 || this.#characters > MAX_CHARACTERS * 0.9)) {
      this.#characters -= this.#weights[first++] as number;
    }
    this.#spans = this.#spans.slice(first);
    this.#weights = this.#weights.slice(first);
    this.#losses.add("spans", first, this.#losses.trouble || this.#tooFast());
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
      if (total(this.#waiting()) && !this.#closed) {
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
      this.#current = batch;
      const asked = { method: "POST", ...batch.request, timeoutMs: TIMEOUT_MS } as const;
      const answer = await this.connection.ask(asked).catch((error: Error) => error);
      if (this.#current !== batch) return total(this.#waiting()) === 0; // it was taken meanwhile
      this.#current = undefined;
      const { outcome } = this.#judge(batch, answer);
      if (outcome === "stored") {
        this.#failures = 0;
        this.#batch = BATCH_SPANS;
      } else if (outcome === "too large" && batch.count > 1) {
        this.#batch = Math.ceil(batch.count / 2);
        batch.putBack();
      } else if (outcome === "away") {
        this.#failures += 1;
        batch.putBack();
        return false;
      }
    }
    return true;
  }

  /** Counts what became of a batch; one that is away, or too large for one request, is not counted. */
  #judge({ kind, request, count }: Batch, answer: Answer | Error): Verdict {
    const { server, keyed } = this.connection;
    const verdict = verdictOf(server, request.path, count, answer, keyed);
    const { outcome, rejected, why } = verdict;
    if (outcome !== "too large") this.#losses.trouble = outcome === "away" ? why : "";
    if (outcome === "stored") this.#sent += count - rejected;
    if (outcome === "stored") this.#losses.add(kind, rejected, why);
    else if (outcome === "refused" || (outcome === "too large" && count === 1)) this.#losses.add(kind, count, why);
    return verdict;
  }

  /** All that waits, taken out, with the batch under way. */
  #takeAll(): Batch[] {
    const taken = this.#current ? [this.#current] : [];
    this.#current = undefined;
    for (let batch = this.#next(); batch; batch = this.#next()) taken.push(batch);
    return taken;
  }

  /** The next batch, taken out; feedback first. */
  #next(): Batch | undefined {
    if (this.#feedback.length) {
      const items = this.#feedback.splice(0, Math.min(BATCH_FEEDBACK, this.#batch));
      return {
        kind: "feedback",
        request: { path: "/v1/feedback", body: JSON.stringify({ feedback: items }) },
        count: items.length,
        putBack: () => this.#feedback.unshift(...items),
      };
    }
    for (let limit = this.#batch; this.#spans.length;) {
      let count = 0;
      let weight = 0;
      while (count < Math.min(limit, this.#spans.length)) {
        weight += this.#weights[count] as number;
        if (count && weight > BATCH_CHARACTERS) break;
        count++;
      }
      const taken = this.#spans.splice(0, count);
      const weights = this.#weights.splice(0, count);
      const characters = weights.reduce((sum, each) => sum + each, 0);
      this.#characters -= characters;
      const putBack = (): void => {
        this.#spans = taken.concat(this.#spans);
        this.#weights = weights.concat(this.#weights);
        this.#characters += characters;
        if (this.#spans.length > MAX_SPANS || this.#characters > MAX_CHARACTERS) this.#shed();
      };
      try {
        const body = exportRequest(taken, this.sender, this.redact);
        return { kind: "spans", request: { path: "/v1/traces", body }, count, putBack };
      } catch (error) {
        // A span of another library may hold anything: it alone is lost.
        if (count > 1) putBack();
        else this.#losses.add("spans", 1, `a span cannot be written as JSON: ${String(error)}.`);
        limit = Math.ceil(count / 2);
      }
    }
    return undefined;
  }
}
