// A report card: what was measured about an evaluator, and what it may therefore do.
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { api, type Schemas } from "../../api/client";
import { Reliability } from "../../charts/reliability";
import { Picture } from "../../charts/picture";
import { counted, dollars, duration, line, moment, number, short } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Behind, Command, Facts, Page, State, type Tone, waiting } from "../../ui/basics";

import { TryEvaluator } from "./try";

export function verdictTone(verdict: string): Tone {
  return verdict === "decides" ? "good" : verdict === "rejected" ? "bad" : "warn";
}

const POINT = "calibration at ";

export function EvaluatorPage() {
  const { id } = useParams({ from: "/evaluators/$id" });
  const card = useQuery({ queryKey: ["report-cards", id], queryFn: () => api.GET("/v1/report-cards/{id}", { params: { path: { id } } }) });
  const older = useQuery({
    queryKey: ["report-cards", "of", card.data?.evaluator],
    enabled: card.data !== undefined,
    queryFn: () => api.GET("/v1/report-cards", { params: { query: { evaluator: card.data?.evaluator } } }),
  });
  const data = card.data;
  const curve = data?.checks.filter((check) => check.name.startsWith(POINT)) ?? [];
  return (
    <Page title={data ? `Evaluator ${line(data.evaluator, 60)}` : "Evaluator"} actions={data && <Command text={`ratchet evaluators show ${data.evaluator}`} />}>
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
              ["rests on", <span key="rests">{counted(data.rollouts, "output")}, <Behind where={{ to: "/labels" }}>{counted(data.labels, "label")}</Behind></span>],
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
                <Reliability of={curve.map((check) => ({ score: Number(check.name.slice(POINT.length)), right: check.value, low: check.low, high: check.high, n: check.n }))} />
              </Picture>
            </>
          )}
          <h2>Checks</h2>
          <Checks of={data.checks.filter((check) => !check.name.startsWith(POINT))} />
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

function Checks({ of }: { of: Schemas["CardCheck"][] }) {
  return (
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
          {of.map((check) => (
            <tr key={check.name}>
              <td>{check.name}</td>
              <td>
                <State of={check.verdict} tone={verdictTone(check.verdict)} />
              </td>
              <td className="num">
                {check.value == null ? "not measured" : number(check.value)}
                {check.low != null && check.high != null && ` [${number(check.low)}, ${number(check.high)}]`}
              </td>
              <td className="num">{number(check.n)}</td>
              <td className="wrap long">{check.detail}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
