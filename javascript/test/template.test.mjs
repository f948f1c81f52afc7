import assert from "node:assert/strict";
import { test } from "node:test";
import { params, prompt, RatchetError } from "agent-ratchet";
import { serve } from "../dist/resources.js";

const released = (name, resource) => serve({ [name]: resource });

test("a prompt fills its placeholders, and undoubles literal braces", () => {
  const system = prompt("system", 'Be {tone}. Answer as {{"answer": …}}. {user.name} {rows[1]} {tone}');
  const text = system.format({ tone: "brief", user: { name: "Ada" }, rows: [1, { a: 2 }], other: 1 });
  assert.equal(text, 'Be brief. Answer as {"answer": …}. Ada {"a":2} brief');
});

const FENCE = '```json\n{"urgency": "high"}\n```\n{{ x }} {% raw %} `${y}` $& $1';
const XML = "<rules>\n  <rule id='{1}'>100 % sure; %s \\n</rule>\n</rules>";
for (const text of ["Be brief.", FENCE, XML, 'Answer {"a": {"b": [{}]}} }} {{ {} '.repeat(600)]) {
  for (const engine of ["f-string", "plain"]) {
    test(`however code reads a prompt, it is the released text to the byte: ${engine}, ${text.slice(0, 20)}`, () => {
      const system = prompt("braces", "Be brief.", { engine });
      const written = engine === "plain" ? text : text.replace(/[{}]/g, "$&$&");
      released("braces", { type: "prompt", text: written, engine });
      const read = [system.format(), system.text, `${system}`, String(system), "" + system, [system].join("")];
      read.push(JSON.parse(JSON.stringify({ system })).system, "{}".replace("{}", () => system));
      assert.deepEqual(new Set(read), new Set([text]));
      assert.equal(system.template, written);
      serve({});
    });
  }
}

test("open slots are named wherever nothing fills them", () => {
  const system = prompt("open", "Be {tone}. {user.name} {{braces}}");
  for (const read of [() => system.text, () => `${system}`, () => JSON.stringify({ system })]) {
    assert.throws(read, { name: "RatchetError", message: /"open" has open slots: \{tone\}, \{user.name\}\. .*format/ });
  }
  assert.equal(system.template, "Be {tone}. {user.name} {{braces}}");
});

test("slots without a value are named, all at once", () => {
  const system = prompt("system", "Be {tone}. {user.name} {rows[1]} {tone} {day}");
  assert.throws(() => system.format({ mood: 1, user: {}, tone: undefined, day: null }), {
    name: "RatchetError",
    message:
      'The prompt "system" has slots that nothing fills: {tone}, {user.name}, {rows.1}.' +
      ' Each needs a value in format({ … }); it got ["mood","user","tone","day"].',
  });
  for (const nothing of [undefined, null, {}, "text", 1]) {
    assert.throws(() => system.format(nothing), /\{tone\}, \{user.name\}, \{rows.1\}, \{day\}/);
  }
});

test("a missing slot is an error also where the released text does without it", () => {
  const system = prompt("system", "Be {tone}.");
  released("system", { type: "prompt", text: "Be brief.", engine: "f-string" });
  assert.throws(() => system.format({}), /\{tone\}/);
  assert.equal(system.format({ tone: "kind" }), "Be brief.");
  serve({});
});

for (const text of ['{"a": 1}', "an open {brace", "a } brace", "{}", "{0}", "{x:>10}", "{x!r}", "{a b}"]) {
  test(`what is no template is refused where it is declared: ${text}`, () => {
    assert.throws(() => prompt("system", text), RatchetError);
  });
}

test("a template reaches own properties of data alone", () => {
  for (const field of ["x.constructor", "x.__proto__", "x.toString", "constructor", "x[constructor]"]) {
    assert.throws(() => prompt("p", `{${field}}`).format({ x: {} }), RatchetError, field);
  }
});

test("a released text replaces the source's, with the same placeholders", () => {
  const system = prompt("system", "Be {tone}.");
  released("system", { type: "prompt", text: "{tone}, always {tone}!", engine: "f-string" });
  assert.equal(system.format({ tone: "brief" }), "brief, always brief!");
  assert.equal(system.template, "{tone}, always {tone}!");
  serve({});
  assert.equal(system.format({ tone: "brief" }), "Be brief.");
});

test("a released text that does not fit is passed over, with one warning", async () => {
  const warned = new Promise((resolve) => process.once("warning", resolve));
  const system = prompt("fits-not", "Be {tone}.");
  const texts = ["Be {mood}.", "Be {tone.first}.", "Be {tone!r}.", "an open {"];
  for (const text of texts) {
    released("fits-not", { type: "prompt", text, engine: "f-string" });
    assert.equal(system.format({ tone: "brief" }), "Be brief.");
  }
  released("fits-not", { type: "prompt", text: "Be {{ tone }}.", engine: "jinja2" });
  assert.equal(system.format({ tone: "brief" }), "Be brief.");
  released("fits-not", { type: "params", values: {} });
  assert.equal(system.format({ tone: "brief" }), "Be brief.");
  const { name, message } = await warned;
  assert.equal(name, "RatchetWarning");
  assert.match(message, /"fits-not".*\{mood\}/);
  serve({});
});

test("params are the released values of the same type, else the source's", () => {
  const search = params("search", { k: 5, threshold: 0.3, mode: "fast", rerank: false });
  released("search", { type: "params", values: { k: 7, threshold: 1, mode: 3, extra: 1, rerank: true } });
  assert.deepEqual({ ...search }, { k: 7, threshold: 1, mode: "fast", rerank: true });
  released("search", { type: "params", values: { k: 7.5 } });
  assert.equal(search.k, 5);
  serve({});
  assert.deepEqual({ ...search }, { k: 5, threshold: 0.3, mode: "fast", rerank: false });
  assert.throws(() => {
    search.k = 9;
  }, TypeError);
});

test("a default that is no knob is refused", () => {
  assert.throws(() => params("search", { k: { low: 1 } }), /search\.k is neither a number/);
  assert.throws(() => params("search", { k: NaN }), RatchetError);
  assert.throws(() => prompt("system"), /A prompt is text, not undefined/);
  assert.throws(() => prompt("", "x"), /needs a name/);
});

test("a plain text keeps its braces, and is replaced by another", () => {
  const system = prompt("plain", 'Answer {"a": 1}.', { engine: "plain" });
  assert.equal(system.text, 'Answer {"a": 1}.');
  assert.equal(system.format({ a: 1 }), 'Answer {"a": 1}.');
  released("plain", { type: "prompt", text: 'Answer {"b": 2}.', engine: "plain" });
  assert.equal(system.text, 'Answer {"b": 2}.');
  serve({});
  assert.throws(() => prompt("plain", "x", { engine: "jinja2" }), RatchetError);
});
