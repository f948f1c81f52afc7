// Recording hook for Node: leads requests through the relay, and writes the stack of each model call.
// Loaded by NODE_OPTIONS=--require; needs nothing but Node, from version 14.
"use strict";

const fs = require("fs");
const path = require("path");
const http = require("http");
const https = require("https");
const Module = require("module");

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
      if (!match || match[2] === __filename) continue;
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

  // Whether a body may ask a model: the relay reads it, and passes all else on unread.
  const led = (url, method) =>
    method === "POST" &&
    /^https?:$/.test(url.protocol) &&
    url.host !== relay.host &&
    fs.existsSync(folder); // else the recording is over, and this process goes on

  const target = (url) =>
    new URL(`/to/${url.protocol.slice(0, -1)}/${url.host}${url.pathname}${url.search}`, relay);

  // A function like fetch, that leads its requests to the relay.
  function moving(own, client) {
    return function (input, init, ...rest) {
      try {
        const request = typeof input === "object" && "url" in input;
        const url = new URL(request ? input.url : String(input));
        const method = String((init && init.method) || (request && input.method) || "GET");
        if (led(url, method.toUpperCase())) {
          const headers = new Headers((init && init.headers) || (request ? input.headers : {}));
          headers.set("x-ratchet-call", named(client));
          const plain = client === "fetch" ? headers : Object.fromEntries(headers);
          const changed = Object.assign(request ? parts(input) : {}, init, { headers: plain });
          return own.call(this, target(url), changed, ...rest);
        }
      } catch {
        // A relative or odd URL: the function itself says what is wrong with it.
      }
      return own.call(this, input, init, ...rest);
    };
  }
  if (globalThis.fetch) globalThis.fetch = moving(globalThis.fetch, "fetch");

  // The package undici has clients of its own.
  const load = Module._load;
  Module._load = function (name, ...rest) {
    const loaded = load.call(this, name, ...rest);
    if (/(?:^|[\\/])undici(?:[\\/]index\.js)?$/.test(name) && loaded && !loaded[relay.host]) {
      Object.defineProperty(loaded, relay.host, { value: true });
      for (const way of ["fetch", "request", "stream"]) {
        const own = loaded[way];
        if (typeof own === "function") loaded[way] = moving(own, "undici");
      }
    }
    return loaded;
  };

  function parts(request) {
    const { method, body, signal, redirect } = request;
    return { method, body, signal, redirect, duplex: "half" };
  }

  for (const [module, protocol] of [[http, "http:"], [https, "https:"]]) {
    const own = module.request;
    module.request = function (...args) {
      const led_args = moved(args, protocol);
      return led_args ? http_request(...led_args) : own.apply(this, args);
    };
    module.get = function (...args) {
      const request = module.request(...args);
      request.end();
      return request;
    };
  }
  const http_request = http.ClientRequest
    ? (options, callback) => new http.ClientRequest(options, callback)
    : null;

  // The arguments of http.request for the relay; null for a request that stays as it is.
  function moved(args, protocol) {
    const callback = typeof args[args.length - 1] === "function" ? args.pop() : undefined;
    try {
      const [first, second] = args;
      const given = typeof first === "string" || first instanceof URL ? new URL(first) : null;
      const options = Object.assign({}, given ? second : first);
      const host = options.hostname || options.host || (given && given.hostname) || "localhost";
      const port = options.port || (given && given.port) || "";
      const way = options.path || (given && given.pathname + given.search) || "/";
      const scheme = options.protocol || (given && given.protocol) || protocol;
      const bare = String(host).replace(/:\d+$/, "");
      const url = new URL(`${scheme}//${bare.includes(":") ? `[${bare}]` : bare}:${port}${way}`);
      const method = String(options.method || "GET").toUpperCase();
      const plain = !options.socketPath && !options.createConnection;
      if (plain && led(url, method)) {
        const headers = Object.assign({}, options.headers);
        headers["x-ratchet-call"] = named("http");
        const way_there = target(url);
        return [
          {
            method,
            headers,
            auth: options.auth,
            timeout: options.timeout,
            signal: options.signal,
            host: relay.hostname,
            port: relay.port,
            path: way_there.pathname + way_there.search,
            agent: false,
          },
          callback,
        ];
      }
    } catch {
      // Node itself says what is wrong with the arguments.
    }
    if (callback) args.push(callback);
    return null;
  }
}

if (settings) begin();
