// The server's API with the types of its OpenAPI document: a route that changes breaks the build.
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/** An error of the server as a sentence, with what to do. A server that is away has status 0. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
  ) {
    super(detail);
  }
}

/** Where the server is mounted: the page may stand under a path of a proxy. */
export const root = document.querySelector<HTMLMetaElement>('meta[name="ratchet-root"]')?.content ?? "";

/** The server's address as other programs are given it. */
export const address = (): string => `${window.location.origin}${root}`;

type Method = "get" | "post" | "put" | "delete";
type PathsWith<M extends Method> = { [P in keyof paths]: paths[P] extends Record<M, { responses: unknown }> ? P : never }[keyof paths];
type Operation<P extends keyof paths, M extends Method> = paths[P] extends Record<M, infer O> ? O : never;
type Answer<O> = O extends { responses: infer R }
  ? R extends { 200: { content: { "application/json": infer T } } }
    ? T
    : R extends { 201: { content: { "application/json": infer T } } }
      ? T
      : undefined
  : never;
type Given<O> = O extends { parameters: infer G } ? { [K in "path" | "query" as K extends keyof G ? ([G[K]] extends [undefined] ? never : K) : never]?: K extends keyof G ? G[K] : never } : object;
type Body<O> = O extends { requestBody: { content: { "application/json": infer B } } } ? { body: Sent<B> } : { body?: undefined };
/** Fields of a request that have a default may be left out. */
type Sent<B> = B extends (infer E)[] ? Sent<E>[] : B extends object ? { [K in keyof B]?: Sent<B[K]> } : B;
type Init<O> = { params?: Given<O> } & Body<O>;

async function call<T>(method: string, path: string, init?: { params?: { path?: object; query?: object }; body?: unknown; parseAs?: "text" }): Promise<T> {
  let filled = path;
  for (const [name, value] of Object.entries(init?.params?.path ?? {})) filled = filled.replace(`{${name}}`, encodeURIComponent(String(value)));
  const query = Object.entries(init?.params?.query ?? {}).filter(([, value]) => value != null);
  const search = query.length ? `?${new URLSearchParams(query.map(([name, value]) => [name, String(value)]))}` : "";
  let response: Response;
  try {
    response = await fetch(`${root}${filled}${search}`, {
      method,
      headers: { accept: "application/json", "x-ratchet-dashboard": "1", ...(init?.body === undefined ? {} : { "content-type": "application/json" }) },
      body: init?.body === undefined ? undefined : JSON.stringify(init.body),
    });
  } catch {
    throw new Refusal(0, "The server cannot be reached. The page goes on when it is back.");
  }
  if (!response.ok) {
    const problem = (await response.json().catch(() => ({}))) as { detail?: string };
    throw new Refusal(response.status, problem.detail ?? `The server answered ${response.status}.`);
  }
  if (response.status === 204) return undefined as T;
  return (init?.parseAs === "text" ? response.text() : response.json()) as Promise<T>;
}

export const api = {
  GET: <P extends PathsWith<"get">>(path: P, init?: { params?: Given<Operation<P, "get">> }) => call<Answer<Operation<P, "get">>>("GET", path, init),
  /** The body as it is, for files. */
  text: <P extends PathsWith<"get">>(path: P, init?: { params?: Given<Operation<P, "get">> }) => call<string>("GET", path, { ...init, parseAs: "text" }),
  POST: <P extends PathsWith<"post">>(path: P, init: Init<Operation<P, "post">>) => call<Answer<Operation<P, "post">>>("POST", path, init),
  PUT: <P extends PathsWith<"put">>(path: P, init: Init<Operation<P, "put">>) => call<Answer<Operation<P, "put">>>("PUT", path, init),
  DELETE: <P extends PathsWith<"delete">>(path: P, init?: { params?: Given<Operation<P, "delete">> }) => call<Answer<Operation<P, "delete">>>("DELETE", path, init),
};
