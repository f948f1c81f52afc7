// What all agents cost. Nothing here knows React.
import type { Schemas } from "../../api/client";

export interface Cost {
  /** Dollars per day, over the whole time. */
  perDay: number;
  /** Whether it was scaled up from a sample of the traces. */
  estimated: boolean;
  /** Whether the price of every call is known; else it is a lower bound. */
  known: boolean;
  /** Dollars of each step of the time. */
  steps: { at: number; value: number }[];
}

/** The cost of all agents, from the steps of the overview; where a step was sampled, scaled to all of its traces. */
export function costOf(agents: Pick<Schemas["AgentOverview"], "series" | "cost_usd">[], stepS: number): Cost {
  const steps = new Map<number, number>();
  let estimated = false;
  for (const agent of agents)
    for (const step of agent.series) {
      const scale = step.sampled ? step.traces / step.sampled : 0;
      if (step.traces > step.sampled) estimated = true;
      steps.set(step.at, (steps.get(step.at) ?? 0) + step.known_usd * scale);
    }
  const total = [...steps.values()].reduce((sum, each) => sum + each, 0);
  const days = (steps.size * stepS) / 86_400;
  return {
    perDay: days ? total / days : 0,
    estimated,
    known: agents.every((agent) => agent.cost_usd != null),
    steps: [...steps].map(([at, value]) => ({ at, value })),
  };
}
