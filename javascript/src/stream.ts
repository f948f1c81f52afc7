/** Records a step that yields its output: the span ends with the stream. */

import type { Step } from "./step";

const FIRST_CHUNK = "gen_ai.response.time_to_first_chunk";
const MAX_CHARACTERS = 16_384;

type Stream = Generator<unknown, unknown, unknown> & AsyncGenerator<unknown, unknown, unknown>;
type Turn = IteratorResult<unknown, unknown>;

/**
 * The same stream, recorded.
 *
 * Each turn runs within the step, and its consumer does not.
 *
 * @param step The step, which ends with the stream.
 * @param stream What the generator function returned.
 * @param kind `GeneratorFunction` or `AsyncGeneratorFunction`.
 */
export function recordStream(step: Step, stream: unknown, kind: string): unknown {
  const inner = stream as Stream;
  const items = new Items(step);
  const turn = (run: () => Turn | Promise<Turn>): Turn | Promise<Turn> => {
    try {
      const coming = step.within(run);
      if (!(coming instanceof Promise)) return items.take(coming);
      return coming.then(
        (found) => items.take(found),
        (error: unknown) => {
          step.failed(error);
          throw error;
        },
      );
    } catch (error) {
      step.failed(error);
      throw error;
    }
  };
  const outer = {
    next: (value?: unknown) => turn(() => inner.next(value)),
    return: (value?: unknown) => {
      const left = turn(() => inner.return(value as never));
      items.end();
      return left;
    },
    throw: (error?: unknown) => turn(() => inner.throw(error)),
    [kind === "GeneratorFunction" ? Symbol.iterator : Symbol.asyncIterator]: () => outer,
  };
  return outer;
}

/** The items of a stream, up to the limit of what is captured. */
class Items {
  readonly #begun = performance.now();
  readonly #items: unknown[] = [];
  #left = MAX_CHARACTERS;
  #first = true;
  #ended = false;

  constructor(private readonly step: Step) {}

  take(turn: Turn): Turn {
    if (turn.done) {
      this.end();
      return turn;
    }
    if (this.#first) {
      this.#first = false;
      this.step.set(FIRST_CHUNK, (performance.now() - this.#begun) / 1_000);
    }
    if (this.#left > 0) {
      this.#left -= typeof turn.value === "string" ? turn.value.length : 1;
      this.#items.push(turn.value);
    }
    return turn;
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.step.done(this.#items);
  }
}
