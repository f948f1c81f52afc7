/** Counts what is lost on its way to the server, and says so once. */

import { writeSync } from "node:fs";

/** Numbers of spans and of items of feedback. */
export interface Amount {
  readonly spans: number;
  readonly feedback: number;
}

/** Trouble that is over sooner is not said while the process runs. */
const PATIENCE_MS = 10_000;

const MAX_REASONS = 3;

/** Losses of one process: said when trouble lasts, and in all when the process ends. */
export class Losses {
  #lost: Amount = { spans: 0, feedback: 0 };
  /** Number of lost items by reason. */
  readonly #reasons = new Map<string, number>();
  #trouble = "";
  /** Number of lost items that were said; undefined before. */
  #told: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** @param waiting What may still be stored. */
  constructor(private readonly waiting: () => Amount) {}

  /** Number of lost items. */
  get count(): number {
    return total(this.#lost);
  }

  /** Why nothing is stored at present; empty if nothing is wrong. */
  get trouble(): string {
    return this.#trouble;
  }

  set trouble(why: string) {
    this.#trouble = why;
    if (why) this.#sayIfItLasts();
  }

  /** Counts items that are lost. */
  add(kind: keyof Amount, count: number, why: string): void {
    if (!count) return;
    this.#lost = { ...this.#lost, [kind]: this.#lost[kind] + count };
    const known = this.#reasons.has(why) || this.#reasons.size < MAX_REASONS;
    const reason = known ? why : ([...this.#reasons.keys()].at(-1) as string);
    this.#reasons.set(reason, (this.#reasons.get(reason) ?? 0) + count);
    this.#sayIfItLasts();
  }

  /**
   * Says what was lost in all, unless that was said.
   *
   * @param now Whether the process ends with this turn.
   */
  end(now: boolean): void {
    clearTimeout(this.#timer);
    if (this.count > (this.#told ?? 0)) this.#say(now);
  }

  #sayIfItLasts(): void {
    if (this.#told !== undefined || this.#timer) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#trouble || this.count) this.#say(false);
    }, PATIENCE_MS);
    this.#timer.unref();
  }

  #say(now: boolean): void {
    this.#told = this.count;
    const sentence = this.#sentence();
    if (!now) return process.emitWarning(sentence, "RatchetWarning");
    // A warning of Node's would come too late.
    if (process.env["NODE_NO_WARNINGS"] === "1" || process.execArgv.includes("--no-warnings")) return;
    try {
      writeSync(2, `(node:${process.pid}) RatchetWarning: ${sentence}\n`);
    } catch {
      // Standard error is closed.
    }
  }

  #sentence(): string {
    const reasons = [...this.#reasons];
    const waiting = this.#trouble ? this.waiting() : { spans: 0, feedback: 0 };
    if (total(waiting) && !this.#reasons.has(this.#trouble)) reasons.push([this.#trouble, total(waiting)]);
    const told = [
      ...(this.count ? [`${shown(this.#lost)} ${this.count === 1 ? "is" : "are"} lost`] : []),
      ...(total(waiting) ? [`${shown(waiting)} ${total(waiting) === 1 ? "waits" : "wait"}`] : []),
    ].join(", ");
    if (reasons.length < 2) return `${told}: ${reasons[0]?.[0]}`;
    return `${told}. ${reasons.map(([why, count]) => `${count.toLocaleString("en")}: ${why}`).join(" ")}`;
  }
}

/** Number of all items. */
export function total({ spans, feedback }: Amount): number {
  return spans + feedback;
}

function shown({ spans, feedback }: Amount): string {
  const counted = (count: number, one: string, many: string): string[] =>
    count ? [`${count.toLocaleString("en")} ${count === 1 ? one : many}`] : [];
  return [
    ...counted(spans, "span", "spans"),
    ...counted(feedback, "statement of feedback", "statements of feedback"),
  ].join(" and ");
}
