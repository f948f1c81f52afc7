import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { canonical, parse } from "./canonical";
import { frexp } from "./eprocess";
import { recompute } from "./recompute";

const text = readFileSync(new URL("./evidence.example.json", import.meta.url), "utf8");

describe("recomputing a decision", () => {
  it("finds the same bits and the same digest as the server wrote", async () => {
    expect((await recompute(text)).map((check) => [check.what, check.holds])).toEqual([
      ["e-values of all 54 pairs", true],
      ["means and gain", true],
      ["verdict “promote”", true],
      ["digest of the file", true],
    ]);
  });
  it("counts what is missing as the plan says, run by run, also after tasks were added", async () => {
    const missing = readFileSync(new URL("./evidence_missing.example.json", import.meta.url), "utf8");
    expect(missing).toContain('"missing": true');
    expect((await recompute(missing)).map((check) => check.holds)).toEqual([true, true, true, true]);
    const skipped = await recompute(missing.replace('"missing": "worst"', '"missing": "skip"'));
    expect(skipped[0]?.holds).toBe(false);
  });
  it("finds a score that was changed, and names the pair", async () => {
    const forged = text.replace(/("pair": 7, .*?"candidate": )([\d.]+)/, "$10.015625");
    expect(forged).not.toBe(text);
    const checks = await recompute(forged);
    expect(checks[0]).toMatchObject({ holds: false, why: "They differ from pair 7 on." });
    expect(checks.at(-1)?.holds).toBe(false);
  });
  it("finds a verdict that the pairs do not carry", async () => {
    const checks = await recompute(text.replace('"verdict": "promote"', '"verdict": "harm"'));
    expect(checks[2]?.holds).toBe(false);
  });
  it("recomputes the draws of frozen sets, one of which lost half of its tasks", async () => {
    const frozen = readFileSync(new URL("./evidence_frozen.example.json", import.meta.url), "utf8");
    const checks = await recompute(frozen);
    expect(checks.map((check) => [check.what.replace(/\d+ pairs/, "pairs"), check.holds])).toEqual([
      ["e-values of all pairs", true],
      ["means and gain", true],
      ["verdict “guardrail”", true],
      ["draws of 2 frozen sets", true],
      ["digest of the file", true],
    ]);
    const promoted = await recompute(frozen.replace('"verdict": "guardrail"', '"verdict": "promote"'));
    expect(promoted[2]?.holds).toBe(false);
  });
  it("finds a draw whose score was changed, and one of another task than its seed draws", async () => {
    const frozen = readFileSync(new URL("./evidence_frozen.example.json", import.meta.url), "utf8");
    const forged = frozen.replace(/("draw": 3, .*?"candidate": )([\d.]+)/, "$10.25");
    expect(forged).not.toBe(frozen);
    expect((await recompute(forged))[3]).toMatchObject({ holds: false, why: "They differ from draw 3 on." });
    const swapped = frozen.replace(/("draw": 3, "set": "[^"]*", "task": )"[^"]*"/, '$1"another"');
    expect(swapped).not.toBe(frozen);
    expect((await recompute(swapped))[3]?.why).toMatch(/^Draw 3 is task another, but its seed draws /);
  });
  it("refuses what is no evidence", async () => {
    await expect(recompute('{"schema": "x"}')).rejects.toThrow("no pairs");
  });
});

describe("canonical JSON", () => {
  it("keeps numbers as written, sorts keys by code point and escapes beyond ASCII", () => {
    expect(canonical(parse('{"b": 1e-07, "a": [1.0, -0.0, "é\\u007f😀\\n"], "drop": null}'), "drop")).toBe(
      '{"a":[1.0,-0.0,"\\u00e9\\u007f\\ud83d\\ude00\\n"],"b":1e-07}',
    );
  });
  it("refuses text that ends early", () => {
    expect(() => parse('{"a": [1, 2')).toThrow(SyntaxError);
  });
});

it("splits numbers into fraction and exponent as C does", () => {
  for (const value of [1, 0.5, 0.7, 3, 1e-17, 0.9999999]) {
    const [fraction, exponent] = frexp(value);
    expect(fraction).toBeGreaterThanOrEqual(0.5);
    expect(fraction).toBeLessThan(1);
    expect(fraction * 2 ** exponent).toBe(value);
  }
});
