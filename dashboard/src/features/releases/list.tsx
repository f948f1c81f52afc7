import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api } from "../../api/client";
import { line, short } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Page, State, Time, waiting } from "../../ui/basics";
import { Rows } from "../../ui/rows";

export function ReleasesPage() {
  const list = useQuery({ queryKey: ["releases"], queryFn: () => api.GET("/v1/releases", { params: { query: { limit: 200 } } }) });
  const releases = list.data?.releases ?? [];
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
                <th>where</th>
                <th>candidate</th>
                <th>rolled back by</th>
              </tr>
            </thead>
            <tbody>
              {releases.map((release) => (
                <tr key={release.id}>
                  <td>
                    <Time at={release.created_at} />
                  </td>
                  <td>
                    <Link to={pathOf("release", release.id)}>
                      <code>{short(release.id)}</code>
                    </Link>
                  </td>
                  <td>
                    <State of={release.state} />
                  </td>
                  <td className="wrap">{release.agent ? `at run time: ${release.agent}` : release.request ? line(release.request.url) : line(release.branch)}</td>
                  <td>
                    <code>{short(release.candidate_id)}</code>
                  </td>
                  <td className="wrap">{line(release.rollback)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Rows>
      )}
    </Page>
  );
}
