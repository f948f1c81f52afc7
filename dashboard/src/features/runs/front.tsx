// The front of a run: quality, cost and latency of each candidate, and what no other beats.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Schemas } from "../../api/client";
import { Front, type FrontDot } from "../../charts/front";
import { Picture } from "../../charts/picture";
import { counted, duration, number, score, short, signed, words } from "../../lib/format";
import { ends } from "../../lib/interval";
import { Command, waiting } from "../../ui/basics";
import { change, rolloutDollars } from "./change";

type Place = Schemas["CandidatePlace"];
type Measure = "cost" | "latency";
const BURDEN: Record<Measure, (place: Place) => number | null | undefined> = { cost: (place) => place.cost_usd, latency: (place) => place.latency_s };
const SHOWN: Record<Measure, (value: number) => string> = { cost: rolloutDollars, latency: duration };
const UNIT: Record<Measure, string> = { cost: "dollars of a rollout", latency: "duration of a rollout" };

export function FrontOf({ run, over: finished, select, selected }: { run: string; over: boolean; select: (id: string) => void; selected?: string }) {
  const answer = useQuery({
    queryKey: ["runs", run, "front"],
    queryFn: () => api.GET("/v1/runs/{id}/front", { params: { path: { id: run } } }),
    refetchInterval: finished ? false : 10_000,
  });
  const [chosen, choose] = useState<Measure>();
  const front = answer.data?.front;
  if (!front) return <>{waiting(answer)}</>;
  const over = chosen ?? (answer.data!.over as Measure);
  const known = front.places.filter((place) => place.is_known);
  const source = front.places[0]!;
  const name = (place: Place) => (place.candidate_id === front.source_id ? "source" : short(place.candidate_id));
  const dots = known.flatMap((place): FrontDot[] => {
    const x = BURDEN[over](place);
    if (x == null) return [];
    const kind = place === source ? "source" : place.is_shipped ? "shipped" : place.on_front ? "front" : "behind";
    const label = kind === "source" || kind === "shipped" ? name(place) : place.letter;
    return [{ id: place.candidate_id, x, y: place.quality, kind, label, said: `${name(place)}: ${score(place.quality)} for ${SHOWN[over](x)}` }];
  });
  const unproved = known.filter((place) => place.letter && !place.verdict && !((place.high ?? 0) < 0));
  const other = unproved.find((place) => place.candidate_id === selected) ?? unproved[0];
  const few = front.places.length - known.length;
  const ranked = [source, ...known.filter((place) => place !== source && place.on_front), ...known.filter((place) => place !== source && !place.on_front)];
  return (
    <>
      <h2 id="front">The front</h2>
      <div className="row">
        <label>
          {front.metric} over
          <select value={over} onChange={(event) => choose(event.target.value as Measure)}>
            <option value="cost">cost</option>
            <option value="latency">latency</option>
          </select>
        </label>
        {other && (
          <span>
            Prove another and ship it: <Command text={`ratchet ship ${short(other.candidate_id)}`} />
          </span>
        )}
      </div>
      {dots.length > 1 ? (
        <Picture name={`run-${short(run)}-front`}>
          <Front of={dots} metric={front.metric} unit={UNIT[over]} shown={SHOWN[over]} select={select} selected={selected} />
        </Picture>
      ) : (
        <p className="muted">{known.length > 1 ? `Of fewer than two candidates the ${over} is known.` : "Only the source has run enough tasks so far."}</p>
      )}
      <div className="scroll" tabIndex={0} aria-label="List of the front">
        <table aria-label="The front">
          <thead>
            <tr>
              <td />
              <th>candidate</th>
              <th className="num">{front.metric}</th>
              <th className="num">gain</th>
              <th className="num">cost</th>
              <th className="num">latency</th>
              <th className="num">tasks</th>
              <th>standing</th>
            </tr>
          </thead>
          <tbody>
            {ranked.map((place) => (
              <tr key={place.candidate_id} aria-selected={place.candidate_id === selected}>
                <td>{place.letter}</td>
                <td>
                  {place === source ? (
                    "source"
                  ) : (
                    <button type="button" className="plain mono" onClick={() => select(place.candidate_id)}>
                      {short(place.candidate_id)}
                    </button>
                  )}
                </td>
                <td className="num">{score(place.quality)}</td>
                <td className="num">
                  {place.low != null && place.high != null && (
                    <>
                      {signed(place.quality - source.quality)} <span className="muted small">{ends([place.low, place.high])}</span>
                    </>
                  )}
                </td>
                <td className="num">
                  {rolloutDollars(place.cost_usd)} <span className="muted small">{change(place.cost_usd, source.cost_usd)}</span>
                </td>
                <td className="num">
                  {duration(place.latency_s)} <span className="muted small">{change(place.latency_s, source.latency_s)}</span>
                </td>
                <td className="num">{number(place.tasks)}</td>
                <td>{standing(place)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className="muted small">
        {few > 0 && `${counted(few, "candidate")} ran fewer than half of the tasks. `}
        {answer.data!.rule}
      </p>
    </>
  );
}

function standing(place: Place): string {
  const proof = place.is_shipped ? "shipped" : place.verdict ? `its proof: ${words(place.verdict)}` : "";
  return [place.on_front ? "on the front" : "", proof].filter(Boolean).join(", ");
}
