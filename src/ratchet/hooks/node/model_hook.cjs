// Hook for Node in rollouts: leads model calls to hosts whose address is in the code to a relay. Loaded
// by NODE_OPTIONS=--require, or BUN_OPTIONS=--preload; needs nothing but Node, from version 14, or Bun.
"use strict";

const lead = require("./leading.cjs");

const { RATCHET_MODEL_RELAY: relay, RATCHET_MODEL_HOSTS: hosts } = process.env;
if (relay && hosts) {
  const places = new Set(hosts.split(","));
  const url = new URL(relay);
  lead({ relay: url, folder: url.pathname, led: ({ host }) => places.has(host), named: () => "" });
}
