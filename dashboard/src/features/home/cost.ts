// What all agents cost. Nothing here knows React.
import type { Schemas } from "../../api/client";

const DAY_S = 86_400;

export interface Cost {
  /** Dollars per day, from the first day with traces to the last. */
  perDay: number;
  /** Whether the price of every call is known; else it is a lower bound. */
  known: boolean;
  /** Dollars of each of these days. */
  days: { at: number; value: number }[];
}

/** The cost of all agents, from the days of the overview that have traces. */
export function costOf(days: Schemas["DayCost"][]): Cost {
  const first = days[0];
  const last = days.at(-1);
  if (!first || !last) return { perDay: 0, known: true, days: [] };
  const dollars = new Map(days.map((day) => [day.at, day.known_usd]));
  const filled = [];
  for (let at = first.at; at <= last.at; at += DAY_S) filled.push({ at, value: dollars.get(at) ?? 0 });
  return {
    perDay: filled.reduce((sum, day) => sum + day.value, 0) / filled.length,
    known: days.every((day) => day.unpriced === 0),
    days: filled,
  };
}
