import assert from "node:assert/strict";
import { test } from "node:test";
import { capture, sentenceOf } from "../dist/capture.js";

test("plain data is its JSON", () => {
  const value = { question: "Is it free?", rows: [1, 2.5, null, true], nested: { a: [] } };
  assert.deepEqual(JSON.parse(capture(value)), value);
  assert.equal(capture(undefined), "null");
});

test("what JSON cannot say has a short form", () => {
  const found = JSON.parse(
    capture({
      big: 12345678901234567890n,
      nan: NaN,
      run: () => 1,
      when: new Date(0),
      set: new Set([1, 2]),
      map: new Map([["a", 1]]),
      bytes: Buffer.alloc(5_000),
      error: new RangeError("too far"),
    }),
  );
  assert.deepEqual(found, {
    big: "12345678901234567890",
    nan: "NaN",
    run: "<function>",
    when: "1970-01-01T00:00:00.000Z",
    set: [1, 2],
    map: { a: 1 },
    bytes: "<Buffer of 5000 bytes>",
    error: "RangeError: too far",
  });
});

test("a client's key is not recorded", () => {
  class Client {
    apiKey = "sk-secret";
  }
  const text = capture({ client: new Client(), deep: [{ client: new Client() }] });
  assert.equal(text, '{"client":"<Client>","deep":[{"client":"<Client>"}]}');
});

test("a class says by toJSON what is recorded", () => {
  class Message {
    toJSON() {
      return { role: "user" };
    }
  }
  assert.equal(capture([new Message()]), '[{"role":"user"}]');
});

test("cycles, depth and getters that throw cannot hurt", () => {
  const cycle = { name: "a" };
  cycle.self = cycle;
  assert.equal(capture(cycle), '{"name":"a","self":"<itself>"}');
  let deep = {};
  for (let depth = 0; depth < 10_000; depth++) deep = { deep };
  assert.match(capture(deep), /nested too deeply/);
  const bad = {
    get value() {
      throw new TypeError("no");
    },
  };
  assert.match(capture(bad), /cannot be shown: TypeError/);
  assert.match(capture(new Proxy({}, { getPrototypeOf: () => assert.fail() })), /cannot be shown/);
  assert.equal(sentenceOf(Object.create(null)), "an error that cannot be shown");
});

test("the same object twice is no cycle", () => {
  const row = { a: 1 };
  assert.equal(capture([row, row]), '[{"a":1},{"a":1}]');
});

test("a long value is cut, and its rest is not even encoded", () => {
  const text = capture("é".repeat(20_000));
  assert.match(text, /… \[3618 more characters\]$/);
  assert.equal(text.length < 16_500, true);
  const rows = { rows: Array.from({ length: 1_000_000 }, () => ({ text: "a".repeat(100) })) };
  let read = 0;
  const counted = new Proxy(rows.rows, {
    get: (target, key) => {
      if (/^\d+$/.test(String(key))) read++;
      return target[key];
    },
  });
  assert.equal(capture(counted).endsWith("more characters]"), true);
  assert.equal(read < 1_000, true);
});

test("a lone surrogate is replaced", () => {
  assert.equal(capture({ a: "x\ud800y", b: "\\ud800" }), '{"a":"x\ufffdy","b":"\\\\ud800"}');
  assert.equal(capture("😀".repeat(9_000)).isWellFormed(), true);
});

test("a value is never changed", () => {
  const value = Object.freeze({ a: Object.freeze([1n, Object.freeze({ b: new Map() })]) });
  assert.equal(capture(value), '{"a":["1",{"b":{}}]}');
});
