/** Records one step of an agent as a span, with its input and output. */

import {
  context,
  ROOT_CONTEXT,
  SpanStatusCode,
  trace,
  type Attributes,
  type Context,
  type Span,
  type Tracer,
} from "@opentelemetry/api";
import { isDeepStrictEqual } from "node:util";
import { attributeOf, capture, kindOf, sentenceOf } from "./capture";
import { EXPERIMENT, type Chooser } from "./chooser";
import { callOf, CONVERSATION_ID, idOf, liveCallOf, USER_ID, setLiveCall, type LiveCall } from "./context";
import { SideEffectBlocked } from "./errors";
import { CONTENT, START, type StepSpan } from "./otlp";
import { rollout } from "./rollout";
import { versionsWith } from "./versions";

const REPLAYABLE = "ratchet.replayable";
const REPLAYED = "ratchet.replayed";

const RELEASE = "ratchet.release";
const RESOURCES = "ratchet.resources";

/** When the start of a call is sent that is in no canary. */
const START_MS = 5_000;

/** What the spans of one step have in common. */
export interface StepTemplate {
  readonly name: string;
  readonly attributes: Attributes;
  readonly inputKey: string;
  readonly outputKey: string;
  /** Whether a call changes the world; such a step never runs in a rollout. */
  readonly sideEffects: boolean;
  /** Whether a step outside of all others is a live call of the agent, with versions; true when left out. */
  readonly isCall?: boolean;
}

/** How steps are recorded while `init` is in effect. */
export interface Recording {
  readonly tracer: Tracer;
  readonly content: boolean;
  /** Whether inputs and outputs are attributes for other exporters of the process too. */
  readonly contentForAll: boolean;
  /** Undefined in rollouts, whose versions are given. */
  readonly chooser: Chooser | undefined;
}

let recording: Recording | undefined;

/** Records steps from now on, or no more. */
export function record(how: Recording | undefined): void {
  recording = how;
}

/** A running step. Where nothing is recorded its methods do nothing. */
export class Step {
  readonly #span: Span | undefined;
  readonly #inside: Context;
  readonly #call: LiveCall | undefined;
  readonly #content: Attributes | undefined;

  /** Made by `begin`. */
  constructor(
    private readonly template: StepTemplate,
    how: Recording | undefined,
  ) {
    let around = context.active();
    if (!how) {
      this.#inside = around;
      return;
    }
    const above = trace.getSpan(around);
    if (!above && rollout && rollout.root !== ROOT_CONTEXT) {
      around = trace.setSpan(around, trace.getSpan(rollout.root) as Span);
    }
    const span = how.tracer.startSpan(template.name, undefined, around);
    // As span.setAttributes would, which checks each of them on each call.
    Object.assign((span as Partial<StepSpan>).attributes ?? {}, template.attributes);
    if (how.chooser && template.isCall !== false) {
      // The processor passes a call on to recorded spans; those that a sampler leaves out need it too.
      const call = callOf(span) ?? (span.isRecording() ? undefined : liveCallOf(around));
      if (!call) this.#call = beginLiveCall(how, how.chooser, around, span, above);
      if (!call || !span.isRecording()) setLiveCall(span, call ?? this.#call);
    }
    this.#span = span;
    this.#inside = trace.setSpan(around, span);
    if (how.content && span.isRecording()) {
      this.#content = {};
      if (!how.contentForAll) (span as Span & StepSpan)[CONTENT] = this.#content;
    }
  }

  /** Id of the step's trace, for feedback, also after its end; empty if it is not recorded. */
  get traceId(): string {
    return this.#span?.spanContext().traceId ?? "";
  }

  /** Id of the step's span, for feedback, also after its end; empty if it is not recorded. */
  get spanId(): string {
    return this.#span?.spanContext().spanId ?? "";
  }

  /** Adds an attribute; anything but text, numbers and booleans becomes JSON. */
  set(key: string, value: unknown): void {
    if (this.#span?.isRecording()) this.#span.setAttribute(key, attributeOf(value));
  }

  /** Gives the step another name. */
  rename(name: string): void {
    this.#span?.updateName(name);
  }

  /** Adds attributes as they are. */
  setAttributes(attributes: Attributes): void {
    this.#span?.setAttributes(attributes);
  }

  /** Records a content that is JSON text already. */
  text(key: string, make: () => string): void {
    if (this.#content && this.#span?.isRecording()) this.#keep(key, make());
  }

  /** Records the step's input. */
  input(value: unknown): void {
    this.#capture(this.template.inputKey, value);
  }

  /** Records the step's output. */
  output(value: unknown): void {
    this.#capture(this.template.outputKey, value);
  }

  /** Makes the step the current one while a function runs. */
  within<T>(run: () => T): T {
    return this.#span ? context.with(this.#inside, run) : run();
  }

  /** The recorded result of this call, in an array, where a rollout must not act. */
  replayed(given: unknown): [unknown] | undefined {
    const found = rollout?.replay(this.template.name, capture(given));
    if (found) {
      this.#span?.setAttribute(REPLAYED, true);
      this.output(found[0]);
    }
    return found;
  }

  /** Ends the step. */
  done(result: unknown): void {
    this.output(result);
    if (this.template.sideEffects && this.#content && isReplayable(result, this.#content[this.template.outputKey])) {
      this.#span?.setAttribute(REPLAYABLE, true);
    }
    this.end();
  }

  /** Ends the step with an error. */
  failed(error: unknown): void {
    const span = this.#span;
    if (span?.isRecording()) {
      span.setAttribute("error.type", error instanceof Error ? kindOf(error) : typeof error);
      if (error instanceof Error) span.recordException(error);
      span.setStatus({ code: SpanStatusCode.ERROR, message: sentenceOf(error) });
    }
    this.end();
  }

  /** Ends the step without an output. */
  end(): void {
    if (this.#call) {
      this.#call.over = true;
      clearTimeout(this.#call.timer);
    }
    this.#span?.end();
  }

  #capture(key: string, value: unknown): void {
    if (this.#content && this.#span?.isRecording()) this.#keep(key, capture(value));
  }

  #keep(key: string, text: string): void {
    (this.#content as Attributes)[key] = text;
    if ((this.#span as Span & StepSpan)[CONTENT] === undefined) this.#span?.setAttribute(key, text);
  }
}

/** Begins a step. */
export function begin(template: StepTemplate): Step {
  return new Step(template, recording);
}

/**
 * Refuses to act in a rollout.
 *
 * @throws SideEffectBlocked in a rollout.
 */
export function refuse(tool: string): void {
  if (!rollout) return;
  rollout.block(tool);
  throw new SideEffectBlocked(
    `The tool "${tool}" has side effects, but no recorded result to replay, so it does not act in a` +
      " rollout.",
  );
}

/** Whether steps are recorded. */
export function isRecording(): boolean {
  return recording !== undefined;
}

/** Whether nothing is recorded and nothing has to be prevented. */
export function isIdle(): boolean {
  return recording === undefined && rollout === undefined;
}

function beginLiveCall(
  how: Recording,
  chooser: Chooser,
  around: Context,
  span: Span,
  above: Span | undefined,
): LiveCall {
  const conversation = idOf(around, CONVERSATION_ID);
  const unit = conversation || idOf(around, USER_ID) || span.spanContext().traceId;
  const { resources, attributes } = chooser.choose(unit, Boolean(conversation));
  const release = process.env["RATCHET_RELEASE"]?.trim().slice(0, 200);
  const versions = versionsWith(resources);
  const told: Attributes = {
    ...attributes,
    ...(versions.length ? { [RESOURCES]: versions } : {}),
    ...(release ? { [RELEASE]: release } : {}),
  };
  span.setAttributes(told);
  if (above?.isRecording()) above.setAttributes(told);
  const call: LiveCall = { resources, over: false };
  if (span.isRecording()) {
    const within = trace.setSpan(around, span);
    const startTime = Date.now();
    const tell = (): void => how.tracer.startSpan(START, { attributes: told, startTime }, within).end(startTime);
    // Of a process that is killed nothing is left on disk, so a call in a canary is told at once.
    if (EXPERIMENT in told) tell();
    else call.timer = setTimeout(tell, START_MS).unref();
  }
  return call;
}

/** Whether a recorded text gives back the value. */
function isReplayable(value: unknown, text: unknown): boolean {
  if (value === undefined) return true;
  try {
    return isDeepStrictEqual(JSON.parse(String(text)), value);
  } catch {
    return false;
  }
}
