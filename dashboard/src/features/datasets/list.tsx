import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api } from "../../api/client";
import { line, number, short } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Page, Time, waiting } from "../../ui/basics";
import { Rows } from "../../ui/rows";

export function DatasetsPage() {
  const list = useQuery({ queryKey: ["datasets"], queryFn: () => api.GET("/v1/dataset-versions", { params: { query: {} } }) });
  const datasets = list.data?.datasets ?? [];
  return (
    <Page title="Datasets" actions={<Command text="ratchet datasets list" />}>
      {waiting(list)}
      {list.data && datasets.length === 0 && <Empty command="ratchet datasets capture NAME">A dataset is a versioned list of tasks. Make one from recorded traces, or import a file:</Empty>}
      {datasets.length > 0 && (
        <Rows>
          <table aria-label="Datasets">
            <thead>
              <tr>
                <th>dataset</th>
                <th>newest version</th>
                <th className="num">tasks</th>
                <th>splits</th>
                <th>made</th>
                <th>how</th>
                <th className="num">versions</th>
              </tr>
            </thead>
            <tbody>
              {datasets.map((dataset) => (
                <tr key={dataset.name}>
                  <td className="wrap">
                    <Link to={pathOf("dataset", dataset.name)}>{line(dataset.name, 60)}</Link>
                  </td>
                  <td>
                    <code>{short(dataset.version)}</code>
                  </td>
                  <td className="num">{number(dataset.tasks)}</td>
                  <td className="whole">
                    {Object.entries(dataset.splits)
                      .map(([split, count]) => `${split} ${number(count)}`)
                      .join(", ")}
                  </td>
                  <td>
                    <Time at={dataset.put_at} />
                  </td>
                  <td>{dataset.provenance}</td>
                  <td className="num">{number(dataset.versions)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Rows>
      )}
    </Page>
  );
}
