/** Requests to the server: bounded in time and size, not traced, and no reason to stay alive. */

import * as http from "node:http";
import * as https from "node:https";
import { context } from "@opentelemetry/api";
import { suppressTracing } from "@opentelemetry/core";

const MAX_BODY = 16 * 1024 * 1024;

/** A request; its body is JSON. */
export interface Asked {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly timeoutMs: number;
}

/** A response. */
export interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

/** Sends requests to one server. Redirects are not followed. */
export class Connection {
  readonly #agent: http.Agent;

  constructor(
    readonly server: string,
    private readonly key: string,
  ) {
    const options = { keepAlive: true, maxSockets: 4 };
    this.#agent = server.startsWith("https:") ? new https.Agent(options) : new http.Agent(options);
  }

  /** Whether requests have a key. */
  get keyed(): boolean {
    return this.key !== "";
  }

  /** Headers that every request has. */
  headers(): Record<string, string> {
    return this.key ? { authorization: `Bearer ${this.key}` } : {};
  }

  /**
   * Sends a request.
   *
   * @throws Error if there is no response in time.
   */
  ask(asked: Asked): Promise<Answer> {
    const { request } = this.server.startsWith("https:") ? https : http;
    const body = asked.body === undefined ? undefined : Buffer.from(asked.body, "utf8");
    const headers: Record<string, string> = { ...this.headers(), ...asked.headers };
    if (body) {
      headers["content-type"] = "application/json";
      headers["content-length"] = String(body.length);
    }
    const options = { method: asked.method, headers, agent: this.#agent };
    return context.with(
      suppressTracing(context.active()),
      () =>
        new Promise<Answer>((resolve, reject) => {
          const sent = request(this.server + asked.path, options, (response) => {
            const parts: Buffer[] = [];
            let size = 0;
            response.on("data", (part: Buffer) => {
              parts.push(part);
              size += part.length;
              if (size > MAX_BODY) response.destroy(new Error("The response is too large."));
            });
            response.on("error", reject);
            response.on("close", () => {
              clearTimeout(timer);
              reject(new Error("The connection was closed."));
            });
            response.on("end", () => {
              const text = Buffer.concat(parts).toString("utf8");
              resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text });
            });
          });
          const late = Object.assign(new Error("It took too long."), { code: "ETIMEDOUT" });
          const timer = setTimeout(() => {
            reject(late);
            sent.destroy();
          }, asked.timeoutMs);
          timer.unref();
          sent.on("socket", (socket) => socket.unref());
          sent.on("error", (error) => {
            clearTimeout(timer);
            reject(error);
          });
          sent.end(body);
        }),
    );
  }

  /** Closes idle connections. */
  close(): void {
    this.#agent.destroy();
  }
}
