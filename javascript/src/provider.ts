/**
 * Joins the process's OpenTelemetry: a set-up of its own stays as it is, and its spans are sent to
 * Ratchet too. A process without one gets a provider and a context manager.
 */

import {
  context,
  createContextKey,
  ROOT_CONTEXT,
  trace,
  type Context,
  type Span,
  type SpanOptions,
  type Tracer,
  type TracerProvider as TracerProviderApi,
} from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { AlwaysOnSampler, TracerProvider, type SpanProcessor } from "@opentelemetry/sdk-trace";
import { warnOnce } from "./errors";
import { processor } from "./processor";

const SCOPE = "agent-ratchet";

/** Instrumentations write several attributes for each message; the SDK's default is 128. */
const MAX_ATTRIBUTES = 2_000;

type TracerArguments = Parameters<TracerProviderApi["getTracer"]>;

/** What `connect` found or made. */
export interface Connected {
  /** The tracer of steps. */
  readonly tracer: Tracer;
  /** Stops receiving spans. */
  disconnect(): void;
}

/**
 * Connects to the process's OpenTelemetry.
 *
 * @param root Context of what runs outside of all spans.
 */
export function connect(root: Context): Connected {
  if (!contextIsCarried()) context.setGlobalContextManager(new RootedContextManager(root));
  if (!contextIsCarried()) {
    warnOnce("OpenTelemetry's context manager could not be set: spans will not form trees.");
  }
  const known = globalProvider();
  if (known === undefined) return installed();
  if (join(known)) return { tracer: trace.getTracer(SCOPE), disconnect: () => undefined };
  warnOnce(
    "This process's TracerProvider takes no further span processor: spans of libraries do not reach" +
      " Ratchet. Add spanProcessor() of agent-ratchet to its spanProcessors.",
  );
  return { tracer: ownProvider().getTracer(SCOPE), disconnect: () => undefined };
}

/** Puts what runs outside of all spans into a given context: in a rollout, into its trace. */
class RootedContextManager extends AsyncLocalStorageContextManager {
  constructor(private readonly root: Context) {
    super();
  }

  override active(): Context {
    const found = super.active();
    return found === ROOT_CONTEXT ? this.root : found;
  }
}

function contextIsCarried(): boolean {
  const key = createContextKey("ratchet.probe");
  const probe = context.active().setValue(key, true);
  return context.with(probe, () => context.active().getValue(key) === true);
}

function ownProvider(): TracerProvider {
  return new TracerProvider({
    sampler: new AlwaysOnSampler(),
    resource: resourceFromAttributes({}),
    spanLimits: { attributeCountLimit: MAX_ATTRIBUTES, eventCountLimit: MAX_ATTRIBUTES },
    spanProcessors: [processor],
  });
}

/** The provider that somebody has set; undefined if nobody has. */
function globalProvider(): TracerProviderApi | undefined {
  const found = trace.getTracerProvider() as Partial<{
    getDelegate(): TracerProviderApi;
    getDelegateTracer(name: string): Tracer | undefined;
  }> &
    TracerProviderApi;
  if (typeof found.getDelegateTracer !== "function" || !found.getDelegate) return found;
  return found.getDelegateTracer(SCOPE) === undefined ? undefined : found.getDelegate();
}

/** Adds our processor to a provider; false if that is not possible. */
function join(provider: TracerProviderApi): boolean {
  const open = provider as Partial<{
    addSpanProcessor(added: SpanProcessor): void; // until 1.x
    _activeSpanProcessor: { _spanProcessors?: SpanProcessor[] }; // since 2.0, which has no way in
  }>;
  const processors = open._activeSpanProcessor?._spanProcessors;
  if (Array.isArray(processors)) {
    if (!processors.includes(processor)) processors.push(processor);
    return true;
  }
  if (typeof open.addSpanProcessor !== "function") return false;
  open.addSpanProcessor(processor);
  return true;
}

/** Sets a provider of ours, such that the user can still set theirs. */
function installed(): Connected {
  const standIn = new StandInProvider();
  trace.setGlobalTracerProvider(standIn);
  const { setGlobalTracerProvider } = trace;
  const api = trace as { setGlobalTracerProvider?: typeof setGlobalTracerProvider };
  // OpenTelemetry accepts one provider. If ours used that up, the user's back end would get nothing.
  api.setGlobalTracerProvider = (provider): boolean => {
    restore();
    trace.disable();
    const done = trace.setGlobalTracerProvider(provider);
    if (done && join(provider)) standIn.successor = provider;
    return done;
  };
  const restore = (): void => {
    delete api.setGlobalTracerProvider; // the class's own method is in effect again
  };
  return {
    tracer: standIn.getTracer(SCOPE),
    disconnect: () => {
      restore();
      if (standIn.successor === undefined) trace.disable();
    },
  };
}

/** The provider of a process that has none; its tracers follow one that the user sets later. */
class StandInProvider implements TracerProviderApi {
  successor: TracerProviderApi | undefined;
  readonly #own = ownProvider();

  getTracer(...given: TracerArguments): Tracer {
    return new FollowingTracer(() => this.successor ?? this.#own, given);
  }

  forceFlush(): Promise<void> {
    return processor.forceFlush();
  }

  shutdown(): Promise<void> {
    return processor.shutdown();
  }
}

class FollowingTracer implements Tracer {
  #provider: TracerProviderApi | undefined;
  #tracer: Tracer | undefined;

  constructor(
    private readonly find: () => TracerProviderApi,
    private readonly given: TracerArguments,
  ) {}

  startSpan(name: string, options?: SpanOptions, parent?: Context): Span {
    return this.#current().startSpan(name, options, parent);
  }

  startActiveSpan(...given: unknown[]): never {
    const tracer = this.#current();
    return Reflect.apply(tracer.startActiveSpan, tracer, given) as never;
  }

  #current(): Tracer {
    const provider = this.find();
    if (this.#tracer === undefined || provider !== this.#provider) {
      this.#provider = provider;
      this.#tracer = provider.getTracer(...this.given);
    }
    return this.#tracer;
  }
}
