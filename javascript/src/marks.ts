/** Marks an agent's functions as its steps: `agent`, `tool`, `retriever`, `trace`. */

import type { Attributes } from "@opentelemetry/api";
import { RatchetError } from "./errors";
import { begin, isIdle, refuse, type Step, type StepTemplate } from "./step";
import { recordStream } from "./stream";

type AnyFunction = (...given: any[]) => any;

/**
 * Marks the agent's entry: a call is a rollout.
 *
 * @param run The function. It keeps its type; what it is called with and what it returns is recorded.
 * @param options `name`: the agent's name in traces, else the function's. `mirror`: whether live calls
 *   may be repeated elsewhere, later, for a candidate; mark every tool that changes the world first.
 * @example
 * export const answer = agent(async (question: string) => { … }, { name: "booking" });
 */
export function agent<F extends AnyFunction>(
  run: F,
  options: { name?: string; mirror?: boolean } = {},
): F {
  const name = nameOf(run, options.name, "agent");
  const attributes: Attributes = { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name };
  if (options.mirror) attributes["ratchet.mirror"] = true;
  return wrap(run, stepTemplate(name, attributes));
}

/**
 * Marks a tool of the agent.
 *
 * @param run The function.
 * @param options `name`: the tool's name in traces, else the function's. `sideEffects`: whether a call
 *   changes the world (sends, books, pays, deletes). Such a tool never runs in a rollout: it gives
 *   its recorded result, or throws `SideEffectBlocked`.
 */
export function tool<F extends AnyFunction>(
  run: F,
  options: { name?: string; sideEffects?: boolean } = {},
): F {
  const name = nameOf(run, options.name, "tool");
  return wrap(run, {
    name,
    attributes: { "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name },
    inputKey: "gen_ai.tool.call.arguments",
    outputKey: "gen_ai.tool.call.result",
    sideEffects: options.sideEffects ?? false,
  });
}

/**
 * Marks a search of the agent; its result is the documents.
 *
 * @param run The function. Its argument, or the argument's `query`, is the query.
 * @param options `name`: the search's name in traces, else the function's.
 */
export function retriever<F extends AnyFunction>(run: F, options: { name?: string } = {}): F {
  const name = nameOf(run, options.name, "retriever");
  const template = stepTemplate(name, { "gen_ai.operation.name": "retrieval" });
  return wrap(run, { ...template, outputKey: "gen_ai.retrieval.documents" }, (step, given) => {
    const query: unknown = given?.["query"] ?? given;
    if (typeof query === "string") step.set("gen_ai.retrieval.query.text", query);
  });
}

/**
 * Records a step: runs a function and returns its result.
 *
 * @param name The step's name.
 * @param run The function; it gets the step, to add attributes or record an input.
 * @example
 * const rows = await trace("load", async (step) => {
 *   step.set("table", "bookings");
 *   return load();
 * });
 */
export function trace<T>(name: string, run: (step: Step) => T): T {
  const step = begin(stepTemplate(String(name), {}));
  return finish(step, () => run(step));
}

function stepTemplate(name: string, attributes: Attributes): StepTemplate {
  return { name, attributes, inputKey: "ratchet.input", outputKey: "ratchet.output", sideEffects: false };
}

function nameOf(run: unknown, given: string | undefined, mark: string): string {
  if (typeof run !== "function") {
    throw new RatchetError(`${mark}() takes a function, not ${run === null ? "null" : typeof run}.`);
  }
  return given || run.name || mark;
}

type Note = (step: Step, given: Record<string, unknown> | undefined) => void;

function wrap<F extends AnyFunction>(run: F, template: StepTemplate, note?: Note): F {
  const kind = run.constructor.name;
  const streams = kind === "GeneratorFunction" || kind === "AsyncGeneratorFunction";
  const isAsync = kind === "AsyncFunction";

  function recorded(this: unknown, ...given: unknown[]): unknown {
    if (isIdle()) return run.apply(this, given);
    const input = given.length === 1 ? given[0] : given;
    const step = begin(template);
    step.input(input);
    note?.(step, input as Record<string, unknown> | undefined);
    if (template.sideEffects) {
      const known = step.replayed(input);
      if (known) {
        step.end();
        return isAsync ? Promise.resolve(known[0]) : known[0];
      }
      try {
        refuse(template.name);
      } catch (error) {
        step.failed(error);
        if (isAsync) return Promise.reject(error as Error);
        throw error;
      }
    }
    if (streams) return recordStream(step, step.within(() => run.apply(this, given)), kind);
    return finish(step, () => run.apply(this, given));
  }
  Object.defineProperty(recorded, "name", { value: run.name, configurable: true });
  Object.defineProperty(recorded, "length", { value: run.length, configurable: true });
  return recorded as F;
}

/** Runs a function within a step, and ends the step with it. */
function finish<T>(step: Step, run: () => T): T {
  let result: T;
  try {
    result = step.within(run);
  } catch (error) {
    step.failed(error);
    throw error;
  }
  if (!isThenable(result)) {
    step.done(result);
    return result;
  }
  const ended = result.then(
    (value) => {
      step.done(value);
      return value;
    },
    (error: unknown) => {
      step.failed(error);
      throw error;
    },
  );
  if (!(result instanceof Promise) || result.constructor === Promise) return ended as T;
  // A subclass has methods of its own, such as those of OpenAI's requests.
  ended.then(undefined, () => undefined);
  return result;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

