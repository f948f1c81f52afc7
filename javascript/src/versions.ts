/** Which version of each prompt that the source declares a call runs; params have no version here. */

import { createHash } from "node:crypto";
import { templateOf, type Resources } from "./resources";
import { foreignTo, type Template } from "./template";

/** Maximum number of prompts that are reported. */
const MOST_TOLD = 200;

const declared = new Map<string, Template>();
let told = new WeakMap<Resources, string[]>();

/** Notes a prompt of the source. */
export function declare(name: string, own: Template): void {
  if (declared.get(name)?.text === own.text) return;
  if (!declared.has(name) && declared.size >= MOST_TOLD) return;
  declared.set(name, own);
  told = new WeakMap();
}

/** Each declared prompt as NAME@VERSION, of a call with these resources. */
export function versionsWith(resources: Resources): string[] {
  let found = told.get(resources);
  if (!found) {
    const prompts = [...declared].sort(([one], [other]) => (one < other ? -1 : 1));
    found = prompts.map(([name, own]) => `${name}@${versionOf(ranWith(resources, name, own))}`);
    told.set(resources, found);
  }
  return found;
}

function ranWith(resources: Resources, name: string, own: Template): Template {
  const found = Object.hasOwn(resources, name) ? templateOf(resources[name]) : undefined;
  return found && foreignTo(own, found) === undefined ? found : own;
}

/** The beginning of a prompt's version, as `ratchet.types.short_version` computes it. */
function versionOf({ engine, text }: Template): string {
  const identity = JSON.stringify({ engine, kind: "prompt", text });
  return createHash("sha256").update(identity).digest("hex").slice(0, 12);
}
