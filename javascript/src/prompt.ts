/** `prompt`: declares a prompt that may evolve. */

import { RatchetError, warnOnce } from "./errors";
import { resolve, templateOf } from "./resources";
import { declare } from "./versions";
import {
  fill,
  foreignTo,
  missingFrom,
  parseTemplate,
  plain,
  type Engine,
  type Fields,
  type Slots,
  type Template,
} from "./template";

/**
 * A named prompt; each use resolves to the candidate's, the release's or the source's own.
 *
 * `Slot` are the names of its slots, where its text is written out; else any name.
 */
export class Prompt<Slot extends string = string> {
  readonly #own: Template;

  /** Made by `prompt`. */
  constructor(
    readonly name: string,
    own: Template,
  ) {
    this.#own = own;
  }

  /**
   * The text that holds here and now, as the model reads it.
   *
   * @throws RatchetError if it has open slots, which only `format` fills.
   */
  get text(): string {
    const open = missingFrom(this.#own, {});
    if (open.length) {
      throw new RatchetError(
        `The prompt "${this.name}" has open slots: ${open.join(", ")}. Fill them with format({ … });` +
          " a framework that fills templates itself takes .template.",
      );
    }
    return this.#filled({});
  }

  /** The text that holds here and now, as it is written: with its slots, and literal braces doubled. */
  get template(): string {
    return this.#template().text;
  }

  /**
   * Fills the slots.
   *
   * @param fields A value for each slot; others are ignored.
   * @throws RatchetError if slots of the source's own text have no value.
   */
  format<Given extends Fields<Slot>>(
    ...[fields]: string extends Slot ? [fields?: Given] : [Slot] extends [never] ? [fields?: Given] : [fields: Given]
  ): string {
    const given: Readonly<Record<string, unknown>> = fields ?? {};
    const missing = missingFrom(this.#own, given);
    if (missing.length) {
      throw new RatchetError(
        `The prompt "${this.name}" has slots that nothing fills: ${missing.join(", ")}.` +
          ` Each needs a value in format({ … }); it got ${JSON.stringify(Object.keys(given))}.`,
      );
    }
    return this.#filled(given);
  }

  #filled(given: Readonly<Record<string, unknown>>): string {
    const template = this.#template();
    if (template === this.#own || !missingFrom(template, given).length) return fill(template, given);
    warnOnce(
      `The released prompt "${this.name}" does not fit its fields` +
        ` ${JSON.stringify(Object.keys(given))}; the source's own is used.`,
    );
    return fill(this.#own, given);
  }

  /** The same as `text`. */
  toString(): string {
    return this.text;
  }

  /** The same as `text`. */
  toJSON(): string {
    return this.text;
  }

  /**
   * The template that holds here and now.
   *
   * One whose placeholders the source's text does not have is another prompt that happens to have
   * this name, such as one that was discovered at the gateway, which then replaces it itself.
   */
  #template(): Template {
    const found = templateOf(resolve(this.name));
    const foreign = found && foreignTo(this.#own, found);
    if (foreign === undefined) return found ?? this.#own;
    warnOnce(
      `The prompt "${this.name}" of the active version has a placeholder {${foreign}} that the` +
        " source's own does not have; the source's own is used.",
    );
    return this.#own;
  }
}

/**
 * Declares a prompt that may evolve.
 *
 * @param name Its name, unique in the agent.
 * @param text The current text, with `{placeholders}`; literal braces are doubled.
 * @param options `engine`: `"plain"` for a text whose braces mean nothing.
 * @throws RatchetError if the text is no template.
 * @example
 * const SYSTEM = prompt("system", "You are a booking assistant. {policy}");
 * SYSTEM.format({ policy: "Be brief." }); // "You are a booking assistant. Be brief."
 */
export function prompt<Text extends string, E extends Engine = "f-string">(
  name: string,
  text: Text,
  options: { engine?: E } = {},
): Prompt<E extends "plain" ? never : Slots<Text>> {
  if (typeof name !== "string" || !name) {
    throw new RatchetError(`A prompt needs a name: prompt("system", "…").`);
  }
  const engine: Engine = options.engine ?? "f-string";
  if (engine !== "f-string" && engine !== "plain") {
    throw new RatchetError(`A prompt's engine is "f-string" or "plain", not ${JSON.stringify(engine)}.`);
  }
  if (typeof text !== "string") throw new RatchetError(`A prompt is text, not ${typeof text}.`);
  const own = engine === "plain" ? plain(text) : parseTemplate(text);
  declare(name, own);
  return new Prompt(name, own);
}
