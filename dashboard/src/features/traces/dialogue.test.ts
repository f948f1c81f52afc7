import { expect, test } from "vitest";
import { dialogue } from "./dialogue";
import type { Message, Recorded } from "./messages";

const says = (role: string, text: string): Message => ({ role, parts: [{ kind: "text", text }] });
const call = (input: Message[], output: Message[], system = ""): Recorded => ({ system, input, output });
const texts = (found: ReturnType<typeof dialogue>) => found.map(({ span, message }) => `${span} ${message.role}: ${message.parts[0]?.text}`);

test("a call that repeats what was said adds only what is new", () => {
  const first = call([says("user", "Hi")], [says("assistant", "Hello")], "Be kind.");
  const second = call([says("user", "Hi"), says("assistant", "Hello"), says("user", "Bye")], [says("assistant", "See you")], "Be kind.");
  expect(texts(dialogue([{ span: "a", recorded: first }, { span: "b", recorded: second }]))).toEqual([
    "a system: Be kind.",
    "a user: Hi",
    "a assistant: Hello",
    "b user: Bye",
    "b assistant: See you",
  ]);
});

test("what is said twice is shown twice", () => {
  const one = call([says("user", "yes")], []);
  const two = call([says("user", "yes"), says("user", "yes")], []);
  expect(dialogue([{ span: "a", recorded: one }, { span: "b", recorded: two }])).toHaveLength(2);
});
