import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, type Schemas } from "../../api/client";
import { line, score } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Page, State, Time, waiting } from "../../ui/basics";
import { Rows } from "../../ui/rows";

function gainOf(experiment: Schemas["Experiment"] | undefined): string {
  const decision = experiment?.decision;
  return decision ? `${line(decision.metric, 40)} ${score(decision.baseline)} → ${score(decision.candidate)}` : "";
}

export function ReleasesPage() {
  const list = useQuery({ queryKey: ["releases"], queryFn: () => api.GET("/v1/releases", { params: { query: { limit: 200 } } }) });
  const releases = list.data?.releases ?? [];
  const experiments = useQuery({ queryKey: ["experiments"], queryFn: () => api.GET("/v1/experiments", { params: { query: { limit: 200 } } }) });
  return (
    <Page title="Releases" actions={<Command text="ratchet releases" />}>
      {waiting(list)}
      {list.data && releases.length === 0 && <Empty command="ratchet improve">A candidate that is proved better becomes a release. There is none yet.</Empty>}
      {releases.length > 0 && (
        <Rows>
          <table aria-label="Releases">
            <thead>
              <tr>
                <th>made</th>
                <th>release</th>
                <th>state</th>
                <th>gain</th>
                <th>rolled back</th>
              </tr>
            </thead>
            <tbody>
              {releases.map((release) => (
                <tr key={release.id}>
                  <td>
                    <Time at={release.created_at} />
                  </td>
                  <td className="wrap">
                    <Link to={pathOf("release", release.id)}>{release.agent ? `at run time: ${line(release.agent, 60)}` : release.request ? `pull request #${release.request.number}` : line(release.branch, 80)}</Link>
                    {release.draft && <span className="badge">draft</span>}
                  </td>
                  <td>
                    <State of={release.state} />
                  </td>
                  <td className="whole">{gainOf(experiments.data?.experiments.find((each) => each.id === release.experiment_id))}</td>
                  <td className="wrap">{line(release.rollback_reason || release.rollback, 160)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Rows>
      )}
    </Page>
  );
}
