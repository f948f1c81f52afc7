// Groups of the traffic for which the candidate is worse: what stands in red beside a verdict.
import type { Schemas } from "../../api/client";
import { counted, line, number, words } from "../../lib/format";

export function Harmed({ decisions }: { decisions: Schemas["StageDecision"][] }) {
  const harmed = decisions.flatMap((decision) => decision.subgroups.filter((group) => group.harmed).map((group) => ({ stage: decision.stage, group })));
  if (harmed.length === 0) return null;
  return (
    <div className="note bad" role="alert">
      {harmed.map(({ stage, group }) => (
        <p key={`${stage}/${group.group}`}>
          <b className="bad">✕ Worse for “{line(group.group, 80)}”</b>: {number(group.baseline)} → {number(group.candidate)} over {counted(group.count, "call")} of the {words(stage)} stage.
        </p>
      ))}
    </div>
  );
}
