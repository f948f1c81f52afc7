// What TypeScript says of a prompt's slots.
import { prompt, Prompt } from "agent-ratchet";

const one = prompt("one", "Be {tone}. {user.name} {rows[0]} {{literal}} {{{deep}}}");
one.format({ tone: "brief", user: { name: "Ada" }, rows: [1], deep: 1 });
one.format({ tone: "brief", user: { name: "Ada" }, rows: [1], deep: 1, other: 2 });
interface All { tone: string; user: { name: string }; rows: number[]; deep: number; extra: string }
declare const all: All;
one.format(all);
// @ts-expect-error a slot is missing
one.format({ tone: "brief", user: { name: "Ada" }, rows: [1] });
// @ts-expect-error all are missing
one.format({});
// @ts-expect-error nothing is given
one.format();
// @ts-expect-error undefined is no value
one.format({ tone: undefined, user: 1, rows: 1, deep: 1 });
declare const maybe: { tone?: string; user: string; rows: number; deep: number };
// @ts-expect-error it may be missing
one.format(maybe);
declare const environment: string | undefined;
// @ts-expect-error it may be undefined
prompt("two", `Hello {name}`).format({ name: environment });
prompt("three", `Line one
  line {two}`).format({ two: null });
// @ts-expect-error its slot is another
prompt("three", `Line one {two}`).format({ tw: 1 });
const none = prompt("four", "No slots, {{braces}}.");
none.format();
none.format({});
none.format({ other: 1 });
declare const text: string;
const any = prompt("five", text);
any.format();
any.format({ whatever: 1 });
const plain = prompt("six", 'Answer {"a": 1}.', { engine: "plain" });
plain.format();
const listed: Prompt[] = [one, none, any, plain];
listed[0]?.format({ x: 1 });
const again: Prompt<"tone"> = prompt("seven", "{tone} {tone}");
const concatenated = prompt("eight", "Be {tone}." + " And {mood}.");
concatenated.format({ tone: 1, mood: 2 });
const LONG = "a {x} ".toString();
prompt("nine", LONG).format({ x: 1 });
function of(p: Prompt) { return p.format({ a: 1 }); }
of(one);
const role = prompt("ten", "{a}{b}{c}");
// @ts-expect-error two are missing
role.format({ a: 1 });
const record: Record<string, string> = {};
// @ts-expect-error it may lack the slot
role.format(record);
const anything: any = {};
role.format(anything);
export default [again, environment];
