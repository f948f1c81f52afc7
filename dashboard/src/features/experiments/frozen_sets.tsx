// Which fixed problems guarded a proof, and which of their tasks the candidate broke or fixed.
import { Link } from "@tanstack/react-router";
import type { Schemas } from "../../api/client";
import { counted, line, number, score } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { State } from "../../ui/basics";

export function FrozenSets({ of }: { of: Schemas["FrozenResult"][] }) {
  return (
    <>
      <h2 id="frozen">Problems that were fixed before</h2>
      <p className="muted">
        The tasks of {counted(of.length, "frozen set")} guard this proof: the candidate must not lose the margin in the mean of any set.
      </p>
      <div className="scroll" tabIndex={0}>
        <table aria-label="Frozen sets">
          <thead>
            <tr>
              <th>problem</th>
              <th>result</th>
              <th>broken</th>
              <th>fixed</th>
              <th className="num">baseline</th>
              <th className="num">candidate</th>
              <th className="num">margin</th>
              <th className="num">draws</th>
            </tr>
          </thead>
          <tbody>
            {of.map((result) => (
              <tr key={result.set_id}>
                <td className="wrap">
                  <Link to={pathOf("problem", result.problem_id)}>{line(result.title, 120)}</Link>
                </td>
                <td>
                  <State {...stateOf(result)} />
                </td>
                <td className="wrap">{tasksOf(result.broken)}</td>
                <td className="wrap">{tasksOf(result.fixed)}</td>
                <td className="num">{score(result.baseline)}</td>
                <td className="num">{score(result.candidate)}</td>
                <td className="num">{number(result.margin)}</td>
                <td className="num">{number(result.draws)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** A set that was not drawn from says nothing about the candidate. */
function stateOf({ draws, passed }: Schemas["FrozenResult"]): { of: string; tone: "good" | "warn" | "bad" } {
  if (draws === 0) return { of: "not run", tone: "warn" };
  return passed ? { of: "holds", tone: "good" } : { of: "not proved", tone: "bad" };
}

const tasksOf = (ids: string[]): string => (ids.length === 0 ? "none" : `${number(ids.length)}: ${ids.map((id) => line(id, 40)).join(", ")}`);
