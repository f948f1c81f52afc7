import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api } from "../../api/client";
import { dollars, duration, line, number } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Page, State, Time, waiting } from "../../ui/basics";
import { Rows } from "../../ui/rows";
import { verdictTone } from "./page";

export function EvaluatorsPage() {
  const list = useQuery({ queryKey: ["report-cards"], queryFn: () => api.GET("/v1/report-cards", { params: { query: { limit: 500 } } }) });
  const newest = new Map(list.data?.cards.map((card) => [card.evaluator, card] as const).reverse());
  return (
    <Page
      title="Evaluators"
      actions={
        <>
          <Link to="/labelling" className="badge info">
            label outputs
          </Link>
          <Command text="ratchet evaluators check" />
        </>
      }
    >
      {waiting(list)}
      {list.data && newest.size === 0 && <Empty command="ratchet evaluators check">A report card says how far an evaluator can be trusted, as measured. None has been made yet.</Empty>}
      {newest.size > 0 && (
        <Rows>
          <table aria-label="Evaluators">
            <thead>
              <tr>
                <th>evaluator</th>
                <th>may</th>
                <th>why</th>
                <th className="num">labels</th>
                <th className="num">outputs</th>
                <th className="num">cost a score</th>
                <th className="num">time a score</th>
                <th>measured</th>
              </tr>
            </thead>
            <tbody>
              {[...newest.values()].map((card) => (
                <tr key={card.id}>
                  <td className="wrap">
                    <Link to={pathOf("evaluator", card.id)}>{line(card.evaluator, 60)}</Link>
                  </td>
                  <td>
                    <State of={card.verdict} tone={verdictTone(card.verdict)} />
                  </td>
                  <td className="wrap long">{line(card.reasons[0] ?? "", 200)}</td>
                  <td className="num">{number(card.labels)}</td>
                  <td className="num">{number(card.rollouts)}</td>
                  <td className="num">{dollars(card.cost_usd)}</td>
                  <td className="num">{duration(card.seconds)}</td>
                  <td>{card.created_at ? <Time at={card.created_at} /> : ""}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Rows>
      )}
    </Page>
  );
}
