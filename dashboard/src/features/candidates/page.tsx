// A candidate: what it is made of, where it comes from, what it changed.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { api } from "../../api/client";
import { line, short } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Behind, Command, Facts, Page, waiting } from "../../ui/basics";
import { Changes } from "../runs/changes";

export function CandidatePage() {
  const { id } = useParams({ from: "/candidates/$id" });
  const { since } = useSearch({ from: "/candidates/$id" });
  const navigate = useNavigate({ from: "/candidates/$id" });
  const candidate = useQuery({ queryKey: ["candidates", id], refetchInterval: false, queryFn: () => api.GET("/v1/candidates/{id}", { params: { path: { id } } }) });
  const data = candidate.data;
  return (
    <Page
      title={data ? line(data.reason, 120) || `Candidate ${short(id)}` : "Candidate"}
      above={`Candidate ${short(id)}`}
      actions={<Command text={`ratchet show ${short(id)}`} />}
    >
      {waiting(candidate)}
      {data && (
        <>
          {data.reason.length > 120 && <p>{line(data.reason, 2_000)}</p>}
          <Facts
            of={[
              ["proposed by", data.algorithm],
              ["parents", data.parents.length > 0 && data.parents.map((parent) => <Link key={parent} to={pathOf("candidate", parent)}>{short(parent)} </Link>)],
              ["rollouts", <Behind key="rollouts" where={{ to: "/rollouts", search: { candidate: data.id } }}>those that ran it</Behind>],
              ["live calls", <Behind key="live" where={{ to: "/traces", search: { candidate: data.id } }}>those that ran it</Behind>],
              ["resources", Object.entries(data.versions).map(([name, version]) => <div key={name}>{line(name)} <code className="muted">{short(version)}</code></div>)],
            ]}
          />
          <div className="row">
            <h2>What it changed</h2>
            <label>
              since candidate
              <input type="text" defaultValue={since ?? ""} placeholder={data.parents[0] ? short(data.parents[0]) : "nothing"} onBlur={(event) => void navigate({ search: { since: event.target.value.trim() || undefined }, replace: true })} />
            </label>
          </div>
          <Changes candidate={data.id} since={since} />
        </>
      )}
    </Page>
  );
}
