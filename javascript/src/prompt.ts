/** `prompt`: declares a prompt that may evolve. */

import { RatchetError, warnOnce } from "./errors";
import { resolve, templateOf } from "./resources";
import { fill, parseTemplate, plain, type Template } from "./template";

/** How a prompt's text is read, by the names that Python has: with `{placeholders}`, or as it is. */
export type Engine = "f-string" | "plain";

/** A named prompt; each use resolves to the candidate's, the release's or the source's own. */
export class Prompt {
  readonly #own: Template;

  /** Made by `prompt`. */
  constructor(
    readonly name: string,
    text: string,
    engine: Engine = "f-string",
  ) {
    this.#own = engine === "plain" ? plain(text) : parseTemplate(text);
  }

  /** The text that holds here and now, with its placeholders. */
  get text(): string {
    return this.#template().text;
  }

  /**
   * Fills the placeholders.
   *
   * @param fields A value for each placeholder; others are ignored.
   * @throws RatchetError if a placeholder of the source's own text has no value.
   */
  format(fields: Readonly<Record<string, unknown>> = {}): string {
    const template = this.#template();
    if (template !== this.#own) {
      try {
        return fill(template, fields);
      } catch {
        warnOnce(
          `The released prompt "${this.name}" does not fit its fields` +
            ` ${JSON.stringify(Object.keys(fields))}; the source's own is used.`,
        );
      }
    }
    return fill(this.#own, fields);
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
    if (found === undefined) return this.#own;
    for (const name of found.placeholders) {
      if (!this.#own.placeholders.has(name)) {
        warnOnce(
          `The prompt "${this.name}" of the active version has a placeholder {${name}} that the` +
            " source's own does not have; the source's own is used.",
        );
        return this.#own;
      }
    }
    return found;
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
export function prompt(name: string, text: string, options: { engine?: Engine } = {}): Prompt {
  if (typeof name !== "string" || !name) {
    throw new RatchetError(`A prompt needs a name: prompt("system", "…").`);
  }
  const engine = options.engine ?? "f-string";
  if (engine !== "f-string" && engine !== "plain") {
    throw new RatchetError(`A prompt's engine is "f-string" or "plain", not ${JSON.stringify(engine)}.`);
  }
  if (typeof text !== "string") throw new RatchetError(`A prompt is text, not ${typeof text}.`);
  return new Prompt(name, text, engine);
}
