// The steps of a training as numbers, each with the rollouts that it counts.
import { useState } from "react";
import type { Schemas } from "../../api/client";
import { counted, number } from "../../lib/format";
import { Behind, type Where } from "../../ui/basics";

const SHOWN = 50;

/** The newest steps first. */
export function Steps({ of, run }: { of: Schemas["TrainingStep"][]; run: string }) {
  const [all, setAll] = useState(false);
  const steps = [...of].reverse();
  const learned = of.filter((step) => step.metrics.rollouts != null);
  const made = (step: Schemas["TrainingStep"]): Where | undefined => (step.purpose ? { to: "/rollouts", search: { purpose: step.purpose } } : undefined);
  const measured = (step: Schemas["TrainingStep"]): Where | undefined => (step.val_candidate ? { to: "/rollouts", search: { queue: run || undefined, purpose: "learn/", candidate: step.val_candidate } } : undefined);
  return (
    <>
      <h2>Steps</h2>
      {learned.length === 0 && <p className="muted">It learns from recorded examples. Its metrics count them, and do not name them.</p>}
      {learned.some((step) => !step.purpose) && <p className="muted">Steps without a link do not name the rollouts that they learned from.</p>}
      <div className="scroll" tabIndex={0}>
        <table aria-label="Steps">
          <thead>
            <tr>
              <th className="num">step</th>
              <th className="num">rollouts</th>
              <th className="num">reward</th>
              <th className="num">loss</th>
              <th className="num">val and 95 % interval</th>
              <th className="num">tasks or examples of val</th>
            </tr>
          </thead>
          <tbody>
            {(all ? steps : steps.slice(0, SHOWN)).map((step) => (
              <tr key={step.step}>
                <td className="num">{number(step.step)}</td>
                <td className="num">
                  <Behind where={made(step)}>{shown(step.metrics.rollouts)}</Behind>
                </td>
                <td className="num">
                  <Behind where={made(step)}>{shown(step.metrics.reward)}</Behind>
                </td>
                <td className="num">{shown(step.metrics.loss)}</td>
                <td className="num">
                  <Behind where={measured(step)}>{shown(step.metrics.val)}</Behind>
                  {step.val_low != null && step.val_high != null && ` [${number(step.val_low)}, ${number(step.val_high)}]`}
                </td>
                <td className="num">{step.val_count > 0 && number(step.val_count)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {!all && steps.length > SHOWN && (
        <button type="button" onClick={() => setAll(true)}>
          All {counted(steps.length, "step")}
        </button>
      )}
    </>
  );
}

function shown(value: number | undefined): string {
  return value === undefined ? "" : number(value);
}
