// Leads requests of a Node process to a relay: those of fetch, undici, http and https. Needs nothing
// but Node, from version 14.
"use strict";

const http = require("http");
const https = require("https");
const Module = require("module");

// Leads the requests for which `led(url, method)` holds to the relay (a URL) below `folder`; a
// request carries the name that `named(client)` returns, unless that is empty.
module.exports = function lead({ relay, folder, led, named }) {
  const target = (url) =>
    new URL(`${folder}/${url.protocol.slice(0, -1)}/${url.host}${url.pathname}${url.search}`, relay);

  const wanted = (url, method) =>
    method === "POST" && /^https?:$/.test(url.protocol) && url.host !== relay.host && led(url);

  // A function like fetch, that leads its requests to the relay.
  function moving(own, client) {
    return function (input, init, ...rest) {
      try {
        const request = typeof input === "object" && "url" in input;
        const url = new URL(request ? input.url : String(input));
        const method = String((init && init.method) || (request && input.method) || "GET");
        if (wanted(url, method.toUpperCase())) {
          const headers = new Headers((init && init.headers) || (request ? input.headers : {}));
          const name = named(client);
          if (name) headers.set("x-ratchet-call", name);
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
      if (plain && wanted(url, method)) {
        const headers = Object.assign({}, options.headers);
        const name = named("http");
        if (name) headers["x-ratchet-call"] = name;
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
};
