import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { armOf, unitDigest } from "../dist/arms.js";
import { Chooser, versionsOf } from "../dist/chooser.js";

const text = (text) => ({ system: { type: "prompt", text, engine: "f-string" } });

const versions = (more = {}) =>
  versionsOf({
    agent: "booking",
    release_id: "r1",
    release: text("released"),
    standing: ["r1", ""],
    split: { agent: "booking", experiment_id: "e1", candidate_id: "c1", enrolled: 1 },
    candidate: text("candidate"),
    ...more,
  });

const vectors = JSON.parse(readFileSync(new URL("arms.json", import.meta.url)));

for (const { experiment_id, enrolled, arms } of vectors) {
  test(`units get the arm that Python gives them: ${enrolled} of "${experiment_id}"`, () => {
    for (const [unit, arm] of Object.entries(arms)) {
      assert.equal(armOf({ experiment_id, candidate_id: "c", enrolled }, unit) ?? null, arm, unit);
    }
  });
}

test("a call says which arm it is in, and what it runs", () => {
  const chooser = new Chooser();
  chooser.serve(versions());
  const seen = new Set();
  for (let number = 0; number < 50; number++) {
    const { resources, attributes } = chooser.choose(`u${number}`, false);
    const treated = attributes["ratchet.arm"] === "candidate";
    seen.add(treated);
    assert.deepEqual(resources, text(treated ? "candidate" : "released"));
    assert.deepEqual(attributes, {
      "ratchet.experiment_id": "e1",
      "ratchet.arm": treated ? "candidate" : "baseline",
      "ratchet.unit": unitDigest(`u${number}`),
      "ratchet.candidate_id": treated ? "c1" : "r1",
    });
  }
  assert.equal(seen.size, 2);
});

test("a conversation keeps the release that it began with, for a day", () => {
  let now = 0;
  const chooser = new Chooser(() => now);
  chooser.serve(versions({ split: null }));
  chooser.choose("c", true);
  chooser.serve(versions({ split: null, release_id: "r2", release: text("newer"), standing: ["r2", "r1", ""] }));
  assert.deepEqual(chooser.choose("c", true), {
    resources: text("released"),
    attributes: { "ratchet.candidate_id": "r1" },
  });
  assert.deepEqual(chooser.choose("another", true).resources, text("newer"));
  assert.deepEqual(chooser.choose("c", false).resources, text("newer"));
  now = 24 * 3_600_000;
  assert.deepEqual(chooser.choose("c", true).resources, text("newer"));
});

test("a withdrawn release is taken from conversations too", () => {
  const chooser = new Chooser();
  chooser.serve(versions({ split: null }));
  chooser.choose("c", true);
  chooser.serve(versions({ split: null, release_id: "", release: {}, standing: [""] }));
  assert.deepEqual(chooser.choose("c", true), { resources: {}, attributes: {} });
});

test("a conversation keeps a candidate that was released after its canary, and counts no more", () => {
  const chooser = new Chooser();
  chooser.serve(versions());
  const unit = Array.from({ length: 50 }, (_, n) => `c${n}`).find(
    (each) => chooser.choose(each, true).attributes["ratchet.arm"] === "candidate",
  );
  chooser.serve(versions({ split: null, release_id: "c1", release: text("candidate"), standing: ["c1", "r1", ""] }));
  assert.deepEqual(chooser.choose(unit, true), {
    resources: text("candidate"),
    attributes: { "ratchet.candidate_id": "c1" },
  });
  chooser.serve(versions({ split: null }));
  assert.deepEqual(chooser.choose(unit, true).resources, text("released"));
});

test("the conversations that were not seen for longest are forgotten", () => {
  const chooser = new Chooser(() => 0, 2);
  chooser.serve(versions({ split: null }));
  for (const unit of ["a", "b", "a", "c"]) chooser.choose(unit, true);
  chooser.serve(versions({ split: null, release_id: "r2", release: text("newer"), standing: ["r2", "r1", ""] }));
  assert.deepEqual(chooser.choose("a", true).resources, text("released"));
  assert.deepEqual(chooser.choose("b", true).resources, text("newer"));
});

test("what is no answer of the server is not served", () => {
  for (const wrong of [null, 1, [], { release: 1 }, { release: { a: { type: "prompt" } } }, { standing: 1 }]) {
    const found = versionsOf(wrong);
    assert.equal(found === undefined || Object.keys(found.release).length === 0, true);
  }
  assert.equal(versionsOf({ release: { a: { type: "prompt" } } }), undefined);
  assert.equal(versionsOf({ release_id: 7 }), undefined);
});
