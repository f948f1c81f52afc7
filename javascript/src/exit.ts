/** What is not sent when the process ends is sent then, within a time limit. */

import { Worker } from "node:worker_threads";
import type { Connection } from "./http";
import type { Outbox } from "./outbox";

const EMPTY_LOOP_MS = 5_000;
const EXIT_MS = 2_000;

/** Sends the rest at the process's end: when it has nothing left to do, and at `process.exit`. */
export function sendAtExit(outbox: Outbox, connection: Connection): () => void {
  let tried = false;
  const beforeExit = (): void => {
    if (tried) return;
    tried = true;
    void outbox.flush(EMPTY_LOOP_MS);
  };
  const exit = (): void => {
    const requests = outbox.close();
    // Where a whole flush has just failed, another try would only delay the end.
    if (requests.length && !tried) sendNow(connection, requests);
  };
  process.on("beforeExit", beforeExit);
  process.on("exit", exit);
  return () => {
    process.off("beforeExit", beforeExit);
    process.off("exit", exit);
  };
}

/** Sends requests while this thread waits: at `process.exit` nothing asynchronous runs any more. */
function sendNow(connection: Connection, requests: ReturnType<Outbox["close"]>): void {
  const done = new Int32Array(new SharedArrayBuffer(4));
  const workerData = { done, requests, server: connection.server, headers: connection.headers() };
  try {
    const worker = new Worker(SENDER, { eval: true, workerData, env: {}, execArgv: [], stdout: true, stderr: true });
    Atomics.wait(done, 0, 0, EXIT_MS);
    void worker.terminate();
  } catch {
    // The process ends; what was not sent is lost.
  }
}

const SENDER = `
const { workerData: { done, requests, server, headers } } = require("node:worker_threads");
const { request } = require(server.startsWith("https:") ? "node:https" : "node:http");
const end = () => { Atomics.store(done, 0, 1); Atomics.notify(done, 0); };
let left = requests.length;
for (const { path, body } of requests) {
  const options = { method: "POST", headers: { ...headers, "content-type": "application/json" } };
  const sent = request(server + path, options, (response) => response.resume());
  sent.on("error", () => {});
  sent.on("close", () => { if (--left === 0) end(); });
  sent.end(body);
}
`;
