// A server of the tests' own: it keeps what it is sent, and answers as it is told.
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const PACKAGE = dirname(dirname(fileURLToPath(import.meta.url)));

/** Starts a server; `answer(request)` may return `{status, body, headers}`, or `text` in place of JSON. */
export async function collector(answer = () => ({})) {
  const requests = [];
  const sockets = new Set();
  const waiting = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (part) => (body += part));
    request.on("end", async () => {
      const { method, url, headers } = request;
      const kept = { method, url, headers, body: body ? JSON.parse(body) : undefined };
      const { status = 200, body: said = {}, text = JSON.stringify(said), headers: more = {}, cut } = await answer(kept);
      requests.push({ ...kept, status });
      response.writeHead(status, { "content-type": "application/json", ...more });
      if (cut) response.write(text);
      else response.end(status === 304 ? undefined : text);
      for (const check of waiting) check();
    });
  });
  server.on("connection", (socket) => sockets.add(socket));
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const spans = () =>
    requests
      .filter(({ url, status }) => url === "/v1/traces" && status === 200)
      .flatMap(({ body }) => body.resourceSpans)
      .flatMap(({ resource, scopeSpans }) =>
        scopeSpans.flatMap(({ scope, spans }) =>
          spans.map((span) => ({
            ...span,
            attributes: plain(span.attributes),
            resource: plain(resource.attributes),
            scope: scope.name,
          })),
        ),
      );
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    requests,
    spans,
    /** The span of a name. */
    span: (name) => spans().find((span) => span.name === name),
    feedback: () => requests.filter(({ url }) => url === "/v1/feedback").flatMap(({ body }) => body.feedback),
    /** Waits until a condition holds after some request. */
    until: (holds) =>
      new Promise((resolve) => {
        const check = () => holds() && resolve();
        waiting.push(check);
        check();
      }),
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Attributes of OTLP as an object. */
export function plain(attributes) {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, valueOf(value)]));
}

function valueOf(value) {
  if ("arrayValue" in value) return value.arrayValue.values.map(valueOf);
  return Object.values(value)[0];
}

/** A folder that is deleted after the test. */
export function folderFor(test) {
  const folder = mkdtempSync(join(PACKAGE, "test", "tmp-"));
  test.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Runs a program that may import the package; its exit code and what it printed. */
export async function run(test, source, environment = {}, { name = "program.mjs", signal } = {}) {
  const folder = folderFor(test);
  const path = join(folder, name);
  writeFileSync(path, source);
  const kept = Object.entries(process.env).filter(([key]) => !/^(RATCHET|OTEL|OPENAI|NODE)_/.test(key));
  const cache = { XDG_CACHE_HOME: join(folder, "cache"), HOME: folder };
  const child = spawn(process.execPath, [path], {
    cwd: folder,
    env: { ...Object.fromEntries(kept), ...cache, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (part) => {
    out += part;
    if (signal) child.kill(signal);
  });
  child.stderr.setEncoding("utf8").on("data", (part) => (err += part));
  const began = performance.now();
  const code = await new Promise((resolve) => child.on("close", (code, by) => resolve(code ?? by)));
  return { code, out, err, ms: performance.now() - began };
}
