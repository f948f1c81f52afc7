// A report card: what was measured about an evaluator, and what it may therefore do.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, type Schemas } from "../../api/client";
import { Reliability } from "../../charts/reliability";
import { Picture } from "../../charts/picture";
import { counted, dollars, duration, line, moment, number, quoted, short } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Behind, Command, Facts, Page, State, type Tone, type Where, waiting } from "../../ui/basics";
import { Rows } from "../../ui/rows";
import { groupOf, groupsOf, POINT, pointName, pointsOf } from "./outputs";
import { TryEvaluator } from "./try";

export function verdictTone(verdict: string): Tone {
  return verdict === "decides" ? "good" : verdict === "rejected" ? "bad" : "warn";
}

export function EvaluatorPage() {
  const { id } = useParams({ from: "/evaluators/$id" });
  const card = useQuery({ queryKey: ["report-cards", id], queryFn: () => api.GET("/v1/report-cards/{id}", { params: { path: { id } } }) });
  const older = useQuery({
    queryKey: ["report-cards", "of", card.data?.evaluator],
    enabled: card.data !== undefined,
    queryFn: () => api.GET("/v1/report-cards", { params: { query: { evaluator: card.data?.evaluator } } }),
  });
  const data = card.data;
  const curve = data ? pointsOf(data) : [];
  const behind = (of?: string): Where | undefined => (data?.outputs.length ? { to: pathOf("evaluator", id), search: { of }, hash: "outputs" } : undefined);
  return (
    <Page title={data ? `Evaluator ${line(data.evaluator, 60)}` : "Evaluator"} actions={data && <Command text={`ratchet evaluators show ${quoted(data.evaluator)}`} />}>
      {waiting(card)}
      {data && (
        <>
          <div className="row">
            <State of={data.verdict} tone={verdictTone(data.verdict)} />
            <p className="verdict" style={{ margin: 0 }}>
              {data.reasons[0]}
            </p>
          </div>
          {data.reasons.slice(1).map((reason) => (
            <p key={reason}>{reason}</p>
          ))}
          {data.labels_needed != null && (
            <p className="note">
              {counted(data.labels_needed, "label")} are missing for a verdict: <Link to="/labelling">label outputs</Link>.
            </p>
          )}
          <Facts
            of={[
              ["rests on", <span key="rests"><Behind where={behind()}>{counted(data.rollouts, "output")}</Behind>, <Behind where={behind("labelled") ?? { to: "/labels" }}>{number(data.labels)} of them labelled</Behind></span>],
              ["a score costs", dollars(data.cost_usd)],
              ["and takes", duration(data.seconds)],
              ["version", <code key="version">{short(data.version)}</code>],
              ["measured", data.created_at ? moment(data.created_at) : ""],
            ]}
          />
          <TryEvaluator evaluator={data.evaluator} />
          {curve.length > 0 && (
            <>
              <h2>Reliability</h2>
              <p className="muted">How often outputs of about the same score are right, by people. On the dashed line the score is that share.</p>
              <Picture name="reliability">
                <Reliability behind={(at) => behind(pointName(at))} of={curve.map((check) => ({ score: Number(check.name.slice(POINT.length)), right: check.value, low: check.low, high: check.high, n: check.n }))} />
              </Picture>
            </>
          )}
          <h2>Checks</h2>
          <Checks card={data} behind={behind} />
          <Outputs card={data} />
          {(older.data?.cards.length ?? 0) > 1 && (
            <>
              <h2>Other cards</h2>
              <ul>
                {older.data?.cards
                  .filter((each) => each.id !== data.id)
                  .map((each) => (
                    <li key={each.id}>
                      <Link to={pathOf("evaluator", each.id)}>{each.created_at ? moment(each.created_at) : short(each.id)}</Link> <State of={each.verdict} tone={verdictTone(each.verdict)} />
                    </li>
                  ))}
              </ul>
            </>
          )}
        </>
      )}
    </Page>
  );
}

function Checks({ card, behind }: { card: Schemas["ReportCard"]; behind: (of: string) => Where | undefined }) {
  const groups = groupsOf(card);
  const where = (check: Schemas["CardCheck"]) => {
    const group = groupOf(check, groups);
    return group === undefined ? undefined : behind(group);
  };
  return (
    <>
      <div className="scroll" tabIndex={0}>
        <table aria-label="Checks">
          <thead>
            <tr>
              <th>check</th>
              <th>alone it would</th>
              <th className="num">value and 95 % interval</th>
              <th className="num">cases</th>
              <th>what it says</th>
            </tr>
          </thead>
          <tbody>
            {card.checks
              .filter((check) => !check.name.startsWith(POINT))
              .map((check) => (
                <tr key={check.name}>
                  <td>{check.name}</td>
                  <td>
                    <State of={check.verdict} tone={verdictTone(check.verdict)} />
                  </td>
                  <td className="num">
                    <Behind where={where(check)}>{check.value == null ? "not measured" : number(check.value)}</Behind>
                    {check.low != null && check.high != null && ` [${number(check.low)}, ${number(check.high)}]`}
                  </td>
                  <td className="num">{number(check.n)}</td>
                  <td className="wrap long">{check.detail}</td>
                </tr>
              ))}
          </tbody>
        </table>
      </div>
      <p className="muted">Values without a link were computed from changed copies of outputs, or from outputs that were scored once more. These are made for the measurement and not kept.</p>
    </>
  );
}

const SHOWN = 50;

/** The outputs that the card rests on: all, or those that one of its figures counts. */
function Outputs({ card }: { card: Schemas["ReportCard"] }) {
  const { of } = useSearch({ from: "/evaluators/$id" });
  const navigate = useNavigate({ from: "/evaluators/$id" });
  const [all, setAll] = useState(false);
  const groups = groupsOf(card);
  const chosen = (of === undefined ? undefined : groups.get(of)) ?? card.outputs;
  if (card.outputs.length === 0)
    return (
      <>
        <h2 id="outputs">Outputs</h2>
        <p className="muted">This card does not say which outputs it rests on. A new one does:</p>
        <Command text={`ratchet evaluators check ${quoted(card.evaluator)}`} />
      </>
    );
  return (
    <>
      <div className="row">
        <h2 id="outputs">Outputs</h2>
        <label>
          Show
          <select value={of ?? ""} onChange={(event) => void navigate({ search: { of: event.target.value || undefined }, replace: true })}>
            <option value="">all</option>
            {[...groups].map(([name, outputs]) => outputs.length > 0 && <option key={name}>{name}</option>)}
          </select>
        </label>
        <span className="muted">{counted(chosen.length, "output")}</span>
      </div>
      <Rows>
        <table aria-label="Outputs">
          <thead>
            <tr>
              <th>rollout</th>
              <th className="num">score</th>
              <th>people say</th>
            </tr>
          </thead>
          <tbody>
            {(all ? chosen : chosen.slice(0, SHOWN)).map((output) => (
              <tr key={output.rollout_id}>
                <td>
                  <Link to={pathOf("rollout", output.rollout_id)}>
                    <code>{short(output.rollout_id)}</code>
                  </Link>
                </td>
                <td className="num">{output.score == null ? "none" : number(output.score)}</td>
                <td>{output.label != null && (output.label === 0.5 ? "as many right as wrong" : <State of={output.label > 0.5 ? "right" : "wrong"} tone={output.label > 0.5 ? "good" : "bad"} />)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Rows>
      {!all && chosen.length > SHOWN && (
        <button type="button" onClick={() => setAll(true)}>
          All {counted(chosen.length, "output")}
        </button>
      )}
    </>
  );
}
