/** `observeOpenAI` and `observeAnthropic`: record each call of a client, streamed, failed or broken off. */

import { RatchetError, warnOnce } from "./errors";
import { items, mapping } from "./json";
import { ANTHROPIC, OPENAI, type ModelApi } from "./model_apis";
import { ModelCall } from "./model_call";
import { usageOfChunk } from "./model_usage";
import { leaveOut } from "./processor";
import { isRecording } from "./step";

type Parse = (...given: unknown[]) => Promise<unknown>;

/** What the clients of `openai` from version 4 on, and of `@anthropic-ai/sdk`, have in common. */
interface Client {
  post(path: string, options?: Options | Promise<Options>): Pending;
  withOptions?(...given: unknown[]): object;
  responsePromise?: (response: Promise<unknown>, parse?: Parse) => Pending;
  parseResponseWithTimeout?: Parse;
}

interface Options {
  readonly body?: unknown;
  /** The span that `@anthropic-ai/sdk` itself makes of the call, from version 1 on. */
  readonly __span?: { readonly span?: object } | undefined;
}

/** Their promise: parses the response when it is awaited. */
interface Pending extends Promise<unknown> {
  responsePromise: Promise<unknown>;
  /** Set where the answer was asked for, rather than the response as it is. */
  readonly parsedPromise?: Promise<unknown>;
  parseResponse: Parse;
  asResponse(): Promise<Response>;
  _thenUnwrap(...given: unknown[]): Pending;
}

interface Events {
  iterator(): AsyncIterator<unknown>;
  readonly controller?: AbortController;
}

/** Maximum number of a client's models for which it is remembered whether streams report usage. */
const MAX_MODELS = 1_000;

const OBSERVED = Symbol.for("ratchet.observed");

/**
 * Records the calls of a client of `openai`, also those that are streamed, fail or are broken off.
 *
 * A stream is asked for its usage, which the caller does not see; a request that is refused with it is made
 * again without.
 *
 * @param client The client; it is changed, and returned.
 * @example
 * const client = observeOpenAI(new OpenAI());
 */
export function observeOpenAI<C extends object>(client: C): C {
  return observe(client, "openai", OPENAI);
}

/**
 * Records the calls of a client of `@anthropic-ai/sdk`, also those that are streamed, fail or are
 * broken off.
 *
 * @param client The client; it is changed, and returned.
 * @example
 * const client = observeAnthropic(new Anthropic());
 */
export function observeAnthropic<C extends object>(client: C): C {
  return observe(client, "anthropic", ANTHROPIC);
}

function observe<C extends object>(client: C, provider: string, apis: Readonly<Record<string, ModelApi>>): C {
  if (typeof client !== "object" || client === null) {
    throw new RatchetError(`A client of ${provider} can be observed, not ${client === null ? "null" : typeof client}.`);
  }
  const { post, withOptions } = client as Partial<Client>;
  if (OBSERVED in client) return client;
  if (typeof post !== "function") {
    const library = provider === "openai" ? "openai" : "@anthropic-ai/sdk";
    warnOnce(`No call of this client is recorded: it is none of the package ${library}, which has a method \`post\`.`);
    return client;
  }
  const takesUsage = new Map<unknown, boolean>();
  const own = {
    [OBSERVED]: true,
    post(path: string, options?: Options | Promise<Options>): Pending {
      const ask = (given: Options | Promise<Options> | undefined): Pending => post.call(client as Client, path, given);
      const api = apis[path.replace(/^\/?(v1\/)?/, "").replace(/\?.*$/, "")];
      if (!api || !isRecording() || !options) return ask(options);
      return recorded(client as Client, new ModelCall(api, provider), api, takesUsage, ask, options);
    },
    ...(typeof withOptions === "function"
      ? { withOptions: (...given: unknown[]) => observe(withOptions.apply(client, given), provider, apis) }
      : {}),
  };
  for (const key of Reflect.ownKeys(own)) {
    Object.defineProperty(client, key, { value: Reflect.get(own, key), configurable: true, writable: true });
  }
  return client;
}

/**
 * Makes a request, and records what comes of it.
 *
 * @param takesUsage Whether a stream of a model may be asked for its usage, as far as it is known.
 * @param post Makes a request.
 * @param options The caller's own.
 */
function recorded(
  client: Client,
  call: ModelCall,
  api: ModelApi,
  takesUsage: Map<unknown, boolean>,
  post: (options: Options | Promise<Options>) => Pending,
  options: Options | Promise<Options>,
): Pending {
  let isRaw = false;
  let hidesUsage = false;
  let model: unknown;
  const chosen = Promise.resolve(options).then((own) => {
    const request = mapping(own?.body);
    call.asks(request);
    if (own?.__span?.span) leaveOut(own.__span.span);
    const { stream, stream_options: told } = request;
    model = request["model"];
    // Where the caller takes the response as it is, which they say in the same turn, it stays so.
    const mayAsk = api.asksForUsage && takesUsage.get(model) !== false && takesUsage.size < MAX_MODELS;
    hidesUsage = mayAsk && stream === true && !isRaw && mapping(told)["include_usage"] === undefined;
    if (!hidesUsage) return own;
    return { ...own, body: { ...request, stream_options: { ...mapping(told), include_usage: true } } };
  });
  const requested = async (response: Promise<unknown>): Promise<unknown> => {
    try {
      const found = await response.catch(async (error: unknown) => {
        if (!hidesUsage || !mayRefuseUsage(error, takesUsage.get(model) === true)) throw error;
        hidesUsage = false;
        const other = await call.within(() => post(options).responsePromise);
        takesUsage.set(model, false);
        return other;
      });
      if (hidesUsage) takesUsage.set(model, true);
      return found;
    } catch (error) {
      call.failed(error);
      throw error;
    }
  };
  const parsed = (parse: Parse): Parse =>
    async function (this: unknown, ...given) {
      let answer: unknown;
      try {
        answer = await parse.apply(this, given);
      } catch (error) {
        call.failed(error);
        throw error;
      }
      if (isStream(answer)) watch(answer, call, hidesUsage);
      else call.answered(answer);
      return answer;
    };
  let pending: Pending;
  try {
    pending = call.within(() => sent(client, () => post(chosen), requested, parsed));
  } catch (error) {
    call.failed(error);
    throw error;
  }
  watchRaw(pending, () => (isRaw = true), call);
  return pending;
}

/**
 * What `post` returns, with its response and its parsing wrapped.
 *
 * Its promises keep both as fields; from version 7 of `openai` on, where a method of the client puts them.
 */
function sent(
  client: Client,
  post: () => Pending,
  requested: (response: Promise<unknown>) => Promise<unknown>,
  parsed: (parse: Parse) => Parse,
): Pending {
  const { responsePromise: make } = client;
  if (!make) {
    const pending = post();
    pending.responsePromise = requested(pending.responsePromise);
    pending.parseResponse = parsed(pending.parseResponse);
    return pending;
  }
  const parseByDefault: Parse = (...given) => (client.parseResponseWithTimeout as Parse)(...given);
  client.responsePromise = (response, parse = parseByDefault) => make.call(client, requested(response), parsed(parse));
  try {
    return post();
  } finally {
    delete client.responsePromise; // the class's own method is in effect again
  }
}

/** Records the answer also where the caller takes the response as it is. */
function watchRaw(pending: Pending, asked: () => void, call: ModelCall): void {
  const { asResponse, _thenUnwrap: unwrap } = pending;
  pending.asResponse = async function (this: Pending) {
    const isRaw = !this.parsedPromise;
    if (isRaw) asked();
    const response = await asResponse.call(this);
    if (isRaw) void readCopy(response, call);
    return response;
  };
  if (typeof unwrap !== "function") return;
  pending._thenUnwrap = function (...given) {
    const unwrapped = unwrap.apply(this, given);
    watchRaw(unwrapped, asked, call);
    return unwrapped;
  };
}

async function readCopy(response: Response, call: ModelCall): Promise<void> {
  try {
    if (!/json/.test(response.headers.get("content-type") ?? "")) return call.left();
    call.answered(await response.clone().json());
  } catch {
    call.left();
  }
}

function isStream(value: unknown): value is Events {
  return (
    typeof (value as Events | null)?.iterator === "function" &&
    typeof (value as { [Symbol.asyncIterator]?: unknown })[Symbol.asyncIterator] === "function"
  );
}

function watch(stream: Events, call: ModelCall, hidesUsage: boolean): void {
  const { iterator, controller } = stream;
  stream.iterator = () => {
    const inner = { [Symbol.asyncIterator]: () => iterator.call(stream) };
    return events(inner, call, hidesUsage, controller?.signal);
  };
  // What reads it ends first: an error there aborts it too.
  controller?.signal.addEventListener("abort", () => setImmediate(() => call.streamed(true)), { once: true });
}

async function* events(
  stream: AsyncIterable<unknown>,
  call: ModelCall,
  hidesUsage: boolean,
  signal: AbortSignal | undefined,
): AsyncGenerator<unknown> {
  let isLeft = true;
  try {
    for await (const event of stream) {
      call.add(event);
      if (hidesUsage && isOfUsage(event)) continue;
      yield event;
    }
    isLeft = false;
  } catch (error) {
    call.failed(error);
    throw error;
  } finally {
    call.streamed(isLeft || signal?.aborted === true);
  }
}

/** Whether a chunk is there only because usage was asked for; of others it takes the empty usage away. */
function isOfUsage(event: unknown): boolean {
  const chunk = mapping(event);
  if (chunk["usage"] === null) delete chunk["usage"];
  return Array.isArray(chunk["choices"]) && !items(chunk["choices"]).length && usageOfChunk(chunk) !== undefined;
}

/**
 * Whether a server may have refused a request because it asked for usage: some say what they do not know,
 * others only that the request is bad.
 *
 * @param isTaken Whether the model has taken such a request before.
 */
function mayRefuseUsage(error: unknown, isTaken: boolean): boolean {
  const { status, message, error: body } = (error ?? {}) as Record<string, unknown>;
  if (/stream_options|include_usage/.test(`${String(message)} ${JSON.stringify(body)}`)) return true;
  return !isTaken && (status === 400 || status === 422);
}
