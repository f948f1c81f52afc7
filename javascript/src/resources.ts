/** Resources: the versions that an agent runs with, and how a name resolves to one. */

import { context } from "@opentelemetry/api";
import { liveCallOf } from "./context";
import { parseTemplate, plain, type Template } from "./template";

/** A resource as the server tells it; kinds that this package cannot run with are passed over. */
export type Resource =
  | { readonly type: "prompt"; readonly text: string; readonly engine: string }
  | { readonly type: "params"; readonly values: Readonly<Record<string, unknown>> }
  | { readonly type: "code" | "model" };

/** Resources by name. */
export type Resources = Readonly<Record<string, Resource>>;

/** The resources of the rollout that this process runs; undefined outside of rollouts. */
let bound: Resources | undefined;
let released: Resources = {};

/** Runs with a rollout's candidate from now on, or with releases again. */
export function bindRollout(resources: Resources | undefined): void {
  bound = resources;
}

/** Resolves to these outside of rollouts, and of live calls with versions of their own. */
export function serve(resources: Resources): void {
  released = resources;
}

/** What a name resolves to here and now; undefined for the source's own. Never waits or throws. */
export function resolve(name: string): Resource | undefined {
  const resources = bound ?? liveCallOf(context.active())?.resources ?? released;
  return Object.hasOwn(resources, name) ? resources[name] : undefined;
}

const parsed = new WeakMap<Resource, Template | null>();

/** The template of a prompt; undefined for other resources, and for one that does not parse. */
export function templateOf(resource: Resource | undefined): Template | undefined {
  if (resource?.type !== "prompt" || resource.engine === "jinja2") return undefined;
  let template = parsed.get(resource);
  if (template === undefined) {
    try {
      template = resource.engine === "plain" ? plain(resource.text) : parseTemplate(resource.text);
    } catch {
      template = null;
    }
    parsed.set(resource, template);
  }
  return template ?? undefined;
}

/** Reads resources from JSON, or undefined if it has another form. */
export function resourcesOf(json: unknown): Resources | undefined {
  if (typeof json !== "object" || json === null || Array.isArray(json)) return undefined;
  for (const resource of Object.values(json as Record<string, unknown>)) {
    const { type, text, values } = (resource ?? {}) as Record<string, unknown>;
    if (type === "prompt" && typeof text !== "string") return undefined;
    if (type === "params" && (typeof values !== "object" || values === null)) return undefined;
  }
  return json as Resources;
}
