// The autopilot: what it does for each agent, what people may tell it, and its cycles.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, type Schemas } from "../../api/client";
import { line, words } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Page, State, Time, waiting } from "../../ui/basics";
import { Ask } from "../../ui/dialog";
import { Rows } from "../../ui/rows";
import { useSession } from "../../ui/session";

const OVER: Schemas["Cycle"]["state"][] = ["done", "quarantined", "dropped"];

export function AutopilotPage() {
  const found = useQuery({ queryKey: ["cycles"], queryFn: () => api.GET("/v1/cycles", { params: { query: { limit: 100 } } }) });
  const overview = useQuery({ queryKey: ["overview", "720"], queryFn: () => api.GET("/v1/overview", { params: { query: { hours: 720 } } }) });
  const cycles = found.data?.cycles ?? [];
  const agents = [...new Set([...(overview.data?.agents ?? []).map((each) => each.name), ...cycles.map((each) => each.agent)])];
  return (
    <Page title="Autopilot" actions={<Command text="ratchet autopilot status" />}>
      {waiting(found)}
      {found.data && overview.data && agents.length === 0 && <Empty command="ratchet init">The autopilot watches live traffic, and improves an agent when something goes wrong. No agent has been seen yet:</Empty>}
      <div className="grid">
        {agents.map((agent) => (
          <Agent key={agent} agent={agent} cycle={cycles.find((each) => each.agent === agent && !OVER.includes(each.state))} />
        ))}
      </div>
      {agents.length > 0 && found.data && (
        <>
          <h2>Cycles</h2>
          {cycles.length === 0 ? (
            <Empty command="ratchet autopilot run">The autopilot has not begun anything. It does so when live traffic gives a reason:</Empty>
          ) : (
            <Rows>
              <table aria-label="Cycles">
                <thead>
                  <tr>
                    <th>began</th>
                    <th>what it noticed</th>
                    <th>agent</th>
                    <th>state</th>
                    <th>how it stands</th>
                  </tr>
                </thead>
                <tbody>
                  {cycles.map((cycle) => (
                    <tr key={cycle.id}>
                      <td>
                        <Time at={cycle.started_at} />
                      </td>
                      <td className="wrap long">
                        <Link to={pathOf("cycle", cycle.id)}>{line(cycle.trigger, 140) || "nothing in words"}</Link>
                      </td>
                      <td className="wrap">{line(cycle.agent, 60)}</td>
                      <td>
                        <State of={cycle.state} />
                      </td>
                      <td className="wrap">{line(cycle.message || cycle.waits, 160)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Rows>
          )}
        </>
      )}
    </Page>
  );
}

function Agent({ agent, cycle }: { agent: string; cycle: Schemas["Cycle"] | undefined }) {
  const queries = useQueryClient();
  const session = useSession();
  const tell = (verb: "pause" | "resume") => async (reason: string) => {
    await api.POST("/v1/agents/{name}/autopilot", { params: { path: { name: agent } }, body: { verb, by: session.data?.key_name || "dashboard", reason } });
    await queries.invalidateQueries();
  };
  return (
    <section className="box stack" aria-label={`Autopilot of ${agent}`}>
      <div className="spread">
        <h2 style={{ margin: 0 }}>{line(agent, 60)}</h2>
        <State of={cycle?.state ?? "idle"} />
      </div>
      {cycle ? (
        <p style={{ margin: 0 }}>
          {line(cycle.trigger, 200)} <Link to={pathOf("cycle", cycle.id)}>{cycle.waits ? line(cycle.waits, 160) : `It is at “${words(cycle.state)}”.`}</Link>
        </p>
      ) : (
        <p className="muted" style={{ margin: 0 }}>
          Nothing is under way.
        </p>
      )}
      <div className="row" style={{ marginTop: "auto" }}>
        <Ask label="Pause the autopilot …" title={`Pause the autopilot of ${agent}?`} confirm="Pause" needs="admin" reason keeps="what people told it" done={`The autopilot of ${agent} is paused.`} act={tell("pause")}>
          <p>It begins nothing new and takes no further step until it is resumed. A watch that is under way goes on.</p>
        </Ask>
        <Ask label="Resume …" title={`Resume the autopilot of ${agent}?`} confirm="Resume" needs="admin" done={`The autopilot of ${agent} goes on.`} act={tell("resume")}>
          <p>It goes on where it was.</p>
        </Ask>
      </div>
    </section>
  );
}
