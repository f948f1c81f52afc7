/**
 * Follows an agent's releases: reads what it should run, in the background.
 *
 * What was read last is kept on disk, so that a process starts with it while the server is away.
 */

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { diag } from "@opentelemetry/api";
import { versionsOf, type Chooser, type LiveVersions } from "./chooser";
import type { Connection } from "./http";
import { bundleName, type Settings } from "./settings";

const INTERVAL_MS = 10_000;
const SWITCH_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;
const TIMEOUT_MS = 5_000;

/** Reads an agent's versions every ten seconds, and hands them to the chooser. */
export class Follower {
  readonly #bundle: string;
  readonly #switch: string;
  #known: LiveVersions | undefined;
  #tag = "";
  #off: boolean;
  #due = 0;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #ended = false;
  #reading: Promise<void> | undefined;
  /** Resolves after the first reading, whether it succeeded or not. */
  readonly first: Promise<void>;

  constructor(
    private readonly settings: Settings,
    private readonly connection: Connection,
    private readonly chooser: Chooser,
  ) {
    this.#bundle = join(settings.state, "live", bundleName(settings));
    this.#switch = join(settings.state, "own-source");
    this.#off = existsSync(this.#switch);
    this.#known = readBundle(this.#bundle);
    this.#serve();
    this.first = this.#poll();
  }

  /** Stops reading; the agent runs its own source from now on. */
  close(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
    this.chooser.serve(undefined);
  }

  async #poll(): Promise<void> {
    const off = existsSync(this.#switch);
    if (off !== this.#off) {
      this.#off = off;
      this.#serve();
    }
    if (performance.now() >= this.#due) {
      this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
      await this.#reading;
    }
    if (this.#ended) return;
    this.#timer = setTimeout(() => void this.#poll(), SWITCH_MS);
    this.#timer.unref();
  }

  async #read(): Promise<void> {
    let pause = INTERVAL_MS;
    try {
      const answer = await this.connection.ask({
        method: "GET",
        path: `/v1/agents/${encodeURIComponent(this.settings.agent)}/traffic`,
        headers: this.#tag ? { "if-none-match": this.#tag } : {},
        timeoutMs: TIMEOUT_MS,
      });
      if (answer.status !== 304) {
        const found = answer.status === 200 ? versionsOf(JSON.parse(answer.body)) : undefined;
        if (!found) throw new Error(`The server answered ${answer.status}.`);
        this.#tag = answer.headers.etag ?? "";
        this.#known = found;
        this.#serve();
        await this.#keep(found, answer.body);
      }
      this.#failures = 0;
    } catch (error) {
      this.#failures += 1;
      if (this.#failures === 1) diag.info("ratchet: releases cannot be read, so they stay as they are.", String(error));
      pause = Math.min(INTERVAL_MS * 2 ** this.#failures, LONGEST_PAUSE_MS);
    }
    // Jitter: processes that were started together do not ask together.
    this.#due = performance.now() + pause * (0.8 + 0.2 * Math.random());
  }

  #serve(): void {
    if (!this.#ended) this.chooser.serve(this.#off ? undefined : this.#known);
  }

  /** Writes the bundle; an agent that was never released leaves none. */
  async #keep(found: LiveVersions, body: string): Promise<void> {
    if (!found.release_id && !found.split && !existsSync(this.#bundle)) return;
    try {
      await writeBundle(this.#bundle, body);
    } catch (error) {
      diag.info("ratchet: the releases could not be kept on disk.", String(error));
    }
  }
}

/** Replaces a bundle at once, or leaves the old one. */
async function writeBundle(path: string, body: string): Promise<void> {
  const state = dirname(dirname(path));
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeFile(join(state, ".gitignore"), "*\n", { flag: "wx" }).catch(() => undefined);
  const beside = `${path}.${process.pid}`;
  try {
    await writeFile(beside, `${hashOf(body)}\n${body}`, { mode: 0o600 });
    await rename(beside, path);
  } finally {
    await rm(beside, { force: true });
  }
}

function readBundle(path: string): LiveVersions | undefined {
  try {
    const text = readFileSync(path, "utf8");
    const end = text.indexOf("\n");
    const body = text.slice(end + 1);
    return hashOf(body) === text.slice(0, end) ? versionsOf(JSON.parse(body)) : undefined;
  } catch {
    return undefined;
  }
}

function hashOf(body: string): string {
  return createHash("sha256").update(body).digest("hex");
}
