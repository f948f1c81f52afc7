/** Ratchet for JavaScript and TypeScript: traces an agent, and runs what was proved better. */

export { setAttributes, setTags } from "./attributes";
export { observeAnthropic, observeOpenAI } from "./clients";
export { conversation } from "./context";
export { RatchetError, SideEffectBlocked } from "./errors";
export { current, feedback } from "./feedback";
export type { Current, Statement } from "./feedback";
export { traceHeaders } from "./headers";
export { init } from "./init";
export type { Handle, Status } from "./init";
export { agent, retriever, tool, trace } from "./marks";
export { params } from "./params";
export type { Value } from "./params";
export { spanProcessor } from "./processor";
export { prompt, Prompt } from "./prompt";
export type { Engine } from "./template";
export type { Redact } from "./redaction";
export type { InitOptions } from "./settings";
export type { Step } from "./step";
