/** `params`: declares numbers, choices and switches that may evolve. */

import { RatchetError } from "./errors";
import { resolve } from "./resources";

/** Type of a knob's value. */
export type Value = number | string | boolean;

/** The type of a knob whose default is given: a default of 5 stands for any number. */
export type Widened<V> = V extends number ? number : V extends string ? string : boolean;

/**
 * Declares numbers, choices and switches that may evolve.
 *
 * @param name Their name, unique in the agent.
 * @param defaults The current value of each knob. A version's value counts if it is of the same type,
 *   and whole where the default is whole.
 * @returns An object whose properties are the values that hold here and now.
 * @throws RatchetError if a default is neither a finite number, a string nor a boolean.
 * @example
 * const SEARCH = params("search", { k: 5, threshold: 0.3 });
 * const rows = find(question, SEARCH.k);
 */
export function params<T extends Readonly<Record<string, Value>>>(
  name: string,
  defaults: T,
): { readonly [K in keyof T]: Widened<T[K]> } {
  if (typeof name !== "string" || !name) {
    throw new RatchetError(`Params need a name: params("search", { k: 5 }).`);
  }
  const knobs = {};
  for (const [knob, own] of Object.entries(defaults)) {
    if (!["number", "string", "boolean"].includes(typeof own) || Number.isNaN(own)) {
      throw new RatchetError(
        `${name}.${knob} is neither a number, a string nor a boolean: ${String(own)}.`,
      );
    }
    Object.defineProperty(knobs, knob, { enumerable: true, get: () => valueOf(name, knob, own) });
  }
  return Object.freeze(knobs) as { readonly [K in keyof T]: Widened<T[K]> };
}

function valueOf(name: string, knob: string, own: Value): Value {
  const resource = resolve(name);
  if (resource?.type !== "params" || !Object.hasOwn(resource.values, knob)) return own;
  const value = resource.values[knob];
  const fits =
    typeof value === typeof own && (!Number.isInteger(own) || Number.isInteger(value as number));
  return fits ? (value as Value) : own;
}
