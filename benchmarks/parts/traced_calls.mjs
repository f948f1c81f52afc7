// Measures one tracer in a process of its own: `traced_calls.mjs WAY ADDRESS`.
//
// Each input line is a number of calls to make; each output line is their wall time in seconds.
// All tracers get the same function and argument, and produce the same: a span with name, times,
// input and output. Calls come in bursts that fit into every queue, and what they made is sent, or
// discarded, before the next burst begins.
import { createInterface } from "node:readline";

const QUESTION = {
  question: "Is a room for ten people free on Friday at nine? ".repeat(9),
  history: [
    { role: "user", content: "Hello, I am looking for a place to meet. ".repeat(6) },
    { role: "assistant", content: "Of course. For how many people? ".repeat(3) },
  ],
  limit: 3,
};
const ANSWER = {
  answer: "Room A2 is free on Friday. ".repeat(8),
  sources: ["rooms.md", "calendar"],
  score: 0.5,
};

const answer = () => ANSWER;
const nowhere = { export: (spans, done) => done({ code: 0 }), shutdown: async () => {}, forceFlush: async () => {} };

const WAYS = {
  bare: async () => [answer, async () => {}],

  // OpenTelemetry's SDK by hand: a span with JSON input and output. Batches are discarded.
  plain: async () => {
    const { context } = await import("@opentelemetry/api");
    const { AsyncLocalStorageContextManager } = await import("@opentelemetry/context-async-hooks");
    const { BatchSpanProcessor, TracerProvider } = await import("@opentelemetry/sdk-trace");
    context.setGlobalContextManager(new AsyncLocalStorageContextManager());
    const processor = new BatchSpanProcessor({ exporter: nowhere });
    const provider = new TracerProvider({ spanProcessors: [processor] });
    const tracer = provider.getTracer("benchmark");
    const traced = (given) =>
      tracer.startActiveSpan("answer", (span) => {
        span.setAttribute("input", JSON.stringify(given));
        const result = answer(given);
        span.setAttribute("output", JSON.stringify(result));
        span.end();
        return result;
      });
    return [traced, () => provider.forceFlush()];
  },

  // Ratchet, sending to a server.
  ours: async (address) => {
    const { agent, init } = await import("agent-ratchet");
    const handle = init({ agent: "benchmark", server: address });
    const flush = async () => {
      if (!(await handle.flush(30_000))) throw new Error(`not stored: ${JSON.stringify(handle.status())}`);
    };
    return [agent(answer, { name: "answer" }), flush];
  },

  // Ratchet's mark without `init`.
  off: async () => [(await import("agent-ratchet")).agent(answer, { name: "answer" }), async () => {}],

  // Langfuse's wrapper, with an exporter that discards batches.
  langfuse: async () => {
    const { context } = await import("@opentelemetry/api");
    const { AsyncLocalStorageContextManager } = await import("@opentelemetry/context-async-hooks");
    const { BasicTracerProvider } = await import("@opentelemetry/sdk-trace-base");
    const { LangfuseSpanProcessor } = await import("@langfuse/otel");
    const { observe, setLangfuseTracerProvider } = await import("@langfuse/tracing");
    context.setGlobalContextManager(new AsyncLocalStorageContextManager());
    const processor = new LangfuseSpanProcessor({ publicKey: "pk", secretKey: "sk", exporter: nowhere });
    const provider = new BasicTracerProvider({ spanProcessors: [processor] });
    setLangfuseTracerProvider(provider);
    return [observe(answer, { name: "answer" }), () => provider.forceFlush()];
  },
};

const [way, address] = process.argv.slice(2);
const [call, flush] = await WAYS[way](address);
if (call(QUESTION) !== ANSWER) throw new Error(`${way} changed what the function returns`);
await flush();
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const count = Number(line);
  const begun = performance.now();
  for (let number = 0; number < count; number++) call(QUESTION);
  const wall = (performance.now() - begun) / 1_000;
  await flush();
  console.log(wall);
}
process.exit(0);
