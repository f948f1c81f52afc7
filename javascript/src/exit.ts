/** What is not sent when the process ends is sent then, within a time limit. */

import { isMainThread, Worker } from "node:worker_threads";
import type { Answer, Connection } from "./http";
import type { Outbox, Unsent } from "./outbox";

const EMPTY_LOOP_MS = 5_000;
const EXIT_MS = 2_000;

/** Signals that end a process that does not handle them, and that people send to end it. */
const SIGNALS = ["SIGINT", "SIGTERM"] as const;

/** How many bytes of an answer are read at exit. */
const ANSWER_BYTES = 2_048;

/**
 * Sends the rest at the process's end: when it has nothing left to do, at `process.exit`, and at a
 * signal. How and with which code it ends stays as it is.
 */
export function sendAtExit(outbox: Outbox, connection: Connection): () => void {
  const sendNow = (): void => {
    const end = performance.now() + EXIT_MS;
    outbox.sendNow((requests) => postNow(connection, requests, end));
  };
  let failed = false;
  let over = false;
  const beforeExit = (): void => {
    if (failed || !outbox.counts().waiting) return;
    void outbox.flush(EMPTY_LOOP_MS).then((done) => (failed = !done));
  };
  const exit = (): void => {
    // Where a whole flush has just failed, another try would only delay the end.
    if (!failed) sendNow();
    outbox.close(true);
  };
  const signalled = (signal: NodeJS.Signals): void => {
    // Without our listener Node does what it would do without us, and others count as they would.
    process.off(signal, signalled);
    sendNow();
    if (process.listenerCount(signal)) {
      setImmediate(() => over || process.prependListener(signal, signalled));
    } else {
      outbox.close(true);
      process.kill(process.pid, signal);
    }
  };
  process.on("beforeExit", beforeExit);
  process.on("exit", exit);
  // First, so that a listener that is there once still counts.
  if (isMainThread) for (const signal of SIGNALS) process.prependListener(signal, signalled);
  return () => {
    over = true;
    process.off("beforeExit", beforeExit);
    process.off("exit", exit);
    for (const signal of SIGNALS) process.off(signal, signalled);
  };
}

/** Makes requests while this thread waits: at the end nothing asynchronous runs any more. */
function postNow(connection: Connection, requests: readonly Unsent[], end: number): Array<Answer | Error> {
  const late: Error = Object.assign(new Error(), { code: "ETIMEDOUT" });
  if (!requests.length || performance.now() > end) return requests.map(() => late);
  // Number of requests that are over, then for each its status, and the bytes of its answer or error.
  const numbers = new Int32Array(new SharedArrayBuffer(4 * (1 + 2 * requests.length)));
  const texts = new Uint8Array(new SharedArrayBuffer(ANSWER_BYTES * requests.length));
  const workerData = {
    numbers,
    texts,
    size: ANSWER_BYTES,
    requests,
    server: connection.server,
    headers: connection.headers(),
  };
  let worker: Worker;
  try {
    worker = new Worker(SENDER, { eval: true, workerData, env: {}, execArgv: [], stdout: true, stderr: true });
  } catch (error) {
    return requests.map(() => error as Error);
  }
  for (let done = 0; done < requests.length; done = Atomics.load(numbers, 0)) {
    if (Atomics.wait(numbers, 0, done, Math.max(0, end - performance.now())) === "timed-out") break;
  }
  void worker.terminate();
  return requests.map((_, index) => {
    const [status = 0, length = 0] = numbers.slice(1 + 2 * index);
    const start = ANSWER_BYTES * index;
    const text = Buffer.from(texts.slice(start, start + length)).toString("utf8");
    if (status > 0) return { status, headers: {}, body: text };
    return status < 0 ? Object.assign(new Error(text), { code: text }) : late;
  });
}

const SENDER = `
const { workerData: { numbers, texts, size, requests, server, headers } } = require("node:worker_threads");
const { request } = require(server.startsWith("https:") ? "node:https" : "node:http");
for (const [index, { path, body }] of requests.entries()) {
  const end = (status, said) => {
    if (numbers[1 + 2 * index]) return;
    const bytes = Buffer.from(said).subarray(0, size);
    texts.set(bytes, size * index);
    numbers[2 + 2 * index] = bytes.length;
    numbers[1 + 2 * index] = status;
    Atomics.add(numbers, 0, 1);
    Atomics.notify(numbers, 0);
  };
  const failed = (error) => end(-1, error.code || error.message || "no answer");
  const options = { method: "POST", headers: { ...headers, "content-type": "application/json" } };
  const sent = request(server + path, options, (response) => {
    const parts = [];
    response.on("data", (part) => parts.length < 100 && parts.push(part));
    response.on("error", failed);
    response.on("end", () => end(response.statusCode, Buffer.concat(parts)));
  });
  sent.on("error", failed);
  sent.end(body);
}
`;
