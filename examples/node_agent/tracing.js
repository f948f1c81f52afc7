// Tracing: what the agent does goes to Ratchet, as OpenTelemetry spans over OTLP/HTTP.
// Everything but the two defaults comes from OpenTelemetry's own environment variables.
import {
  context,
  diag,
  DiagConsoleLogger,
  DiagLogLevel,
  propagation,
  ROOT_CONTEXT,
} from "@opentelemetry/api";
import { OpenAIInstrumentation } from "@arizeai/openinference-instrumentation-openai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import OpenAI from "openai";

diag.setLogger(new DiagConsoleLogger(), DiagLogLevel.ERROR); // else lost traces would be silent

process.env.OTEL_EXPORTER_OTLP_ENDPOINT ||= "http://127.0.0.1:8765";

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "room-agent" }).merge(
    detectResources({ detectors: [envDetector] }), // OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
  ),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
});
provider.register();

// Ratchet's gateway records the calls that go through it; nothing is recorded twice.
if (!process.env.OPENAI_BASE_URL?.includes("/gateway/")) {
  // ES modules cannot be patched while they load, so the class is handed over.
  new OpenAIInstrumentation({ tracerProvider: provider }).manuallyInstrument(OpenAI);
}

/** Headers that put what the gateway records into the trace of here. */
export function traceHeaders() {
  const headers = {};
  propagation.inject(context.active(), headers);
  return headers;
}

/** Run something inside of the trace that TRACEPARENT names, as in a rollout. */
export function inGivenTrace(run) {
  const carrier = { traceparent: process.env.TRACEPARENT };
  return context.with(propagation.extract(ROOT_CONTEXT, carrier), run);
}

/** Send what is not sent yet. Where Ratchet is away it is given up after a while. */
export async function flushTraces(patienceMs = 5000) {
  const sent = provider.shutdown().catch((error) => console.error(`Traces: ${error.message}`));
  const late = new Promise((end) => setTimeout(end, patienceMs, "late").unref());
  if ((await Promise.race([sent, late])) === "late") console.error("Traces: not all were sent.");
}
