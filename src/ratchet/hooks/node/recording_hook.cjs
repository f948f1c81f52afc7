// Recording hook for Node: leads requests through the relay, and writes the stack of each model call.
// Loaded by NODE_OPTIONS=--require, or BUN_OPTIONS=--preload; needs only Node, from version 14, or Bun.
"use strict";

const fs = require("fs");
const path = require("path");
const lead = require("./leading.cjs");

const folder = process.env.RATCHET_RECORDING;
let settings = null;
try {
  settings = JSON.parse(fs.readFileSync(path.join(folder, "settings.json"), "utf8"));
} catch {
  // Without a recording this file does nothing.
}

function begin() {
  const journal = path.join(folder, `${process.pid}-node-${Date.now()}.jsonl`);
  const write = (event) => {
    try {
      fs.appendFileSync(journal, JSON.stringify(event) + "\n");
    } catch {
      // A full disk must not end the owner's program.
    }
  };
  write({ kind: "node", pid: process.pid, version: process.version, argv: process.argv });

  // What leads programs in other languages to the relay is taken back: here requests are led.
  for (const [name, [value, before]] of Object.entries(settings.set)) {
    if (process.env[name] !== value) continue;
    if (before === null) delete process.env[name];
    else process.env[name] = before;
  }

  const relay = new URL(settings.relay);
  let number = 0;

  // A file of the project by its path from the root; empty for Node's own and for packages.
  function ownFile(file) {
    if (!path.isAbsolute(file)) return "";
    const inside = path.relative(settings.root, file);
    const other = inside.startsWith("..") || path.isAbsolute(inside);
    return other || inside.includes("node_modules") ? "" : inside.split(path.sep).join("/");
  }

  // The calls that led here, innermost first, without those of this file.
  function stack() {
    const limit = Error.stackTraceLimit;
    const prepare = Error.prepareStackTrace;
    Error.stackTraceLimit = 200;
    Error.prepareStackTrace = undefined;
    const text = new Error().stack || "";
    Error.stackTraceLimit = limit;
    Error.prepareStackTrace = prepare;
    const calls = [];
    for (const line of text.split("\n").slice(1)) {
      const match = /^\s*at (?:async )?(?:(.+?) \()?(?:file:\/\/)?(.+?):(\d+):\d+\)?$/.exec(line);
      if (!match || path.dirname(match[2]) === __dirname) continue;
      const name = (match[1] || "<anonymous>").replace(/^(?:Object|Module|global)\./, "");
      const asynchronous = line.includes("at async ");
      calls.push({
        file: ownFile(match[2]),
        line: Number(match[3]),
        function: name === "<anonymous>" ? "<module>" : name,
        type: name === "<anonymous>" ? "module" : asynchronous ? "coroutine" : "function",
      });
    }
    return calls;
  }

  const frames = () => stack().filter((call) => call.file).reverse();

  // Variables that are read; of those that only a package reads, the ones that are not there.
  const looks = new Map(); // Stacks cost time, and packages read some variables at each call.
  const MOST_LOOKS = 20;
  const DONE = Infinity;
  function asked(env, name) {
    if (typeof name !== "string" || !/^[A-Z][A-Z0-9_]+$/.test(name)) return;
    const before = looks.get(name) || 0;
    if (before >= MOST_LOOKS) return;
    looks.set(name, before + 1);
    const present = env[name] !== undefined;
    const [reader] = stack();
    if (reader && (reader.file || !present)) {
      looks.set(name, DONE);
      write({ kind: "variable", name, present, file: reader.file });
    }
  }
  let copied = ""; // A copy of all variables asks for each one's descriptor, then for its value.
  process.env = new Proxy(process.env, {
    get(env, name) {
      if (name === copied) copied = "";
      else asked(env, name);
      return env[name];
    },
    has(env, name) {
      asked(env, name);
      return name in env;
    },
    getOwnPropertyDescriptor(env, name) {
      const descriptor = Object.getOwnPropertyDescriptor(env, name);
      if (descriptor) copied = name;
      else asked(env, name);
      return descriptor;
    },
    set(env, name, value) {
      // What a package found missing, and loads itself, as from .env.
      if (looks.get(name) === DONE) write({ kind: "variable", name, present: true, file: "" });
      env[name] = value;
      return true;
    },
  });

  // A call's name, which the relay reports with it.
  function named(client) {
    const name = `${process.pid}-node-${number++}`;
    write({ kind: "call", name, client, stack: frames() });
    return name;
  }

  lead({
    relay,
    folder: "/to",
    led: () => fs.existsSync(folder), // else the recording is over, and this process goes on
    named,
  });
}

if (settings) begin();
