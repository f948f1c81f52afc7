// Agents: what each runs now, its prompts at the gateway, its autopilot, and the ways back.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { address, api, type Schemas } from "../../api/client";
import { line, moment, number, short, words } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Facts, Page, waiting } from "../../ui/basics";
import { Ask } from "../../ui/dialog";
import { LongText } from "../../ui/long_text";

export function AgentsPage() {
  const agents = useQuery({ queryKey: ["agents"], queryFn: () => api.GET("/v1/agents") });
  const overview = useQuery({ queryKey: ["overview", "720"], queryFn: () => api.GET("/v1/overview", { params: { query: { hours: 720 } } }) });
  const set = new Map(agents.data?.agents.map((agent) => [agent.name, agent]));
  for (const agent of overview.data?.agents ?? []) if (!set.has(agent.name)) set.set(agent.name, { name: agent.name, substitute: false, mirror: null });
  return (
    <Page title="Prompts" actions={<Command text="ratchet prompts --help" />}>
      {waiting(agents)}
      {agents.data && set.size === 0 && <Empty command="ratchet init">No agent has been seen. Wire it, or let its base URL lead to this server’s gateway ({`${address()}/gateway/AGENT/openai/v1`}), and its prompts appear here:</Empty>}
      {[...set.values()].map((agent) => (
        <Agent key={agent.name} agent={agent} cycle={overview.data?.agents.find((each) => each.name === agent.name)?.cycle ?? null} />
      ))}
    </Page>
  );
}

function Agent({ agent, cycle }: { agent: Schemas["AgentSettings"]; cycle: Schemas["Cycle"] | null }) {
  const queries = useQueryClient();
  const history = useQuery({ queryKey: ["agents", agent.name, "history"], queryFn: () => api.GET("/v1/agents/{name}/history", { params: { path: { name: agent.name } } }) });
  const active = history.data?.activations[0];
  const put = async (changed: Partial<Schemas["AgentSettings"]>) => {
    const { name: _, ...settings } = { ...agent, ...changed };
    await api.PUT("/v1/agents/{name}", { params: { path: { name: agent.name } }, body: settings });
    await queries.invalidateQueries({ queryKey: ["agents"] });
  };
  const activate = (candidate_id: string) => async (reason: string) => {
    await api.PUT("/v1/agents/{name}/active", { params: { path: { name: agent.name } }, body: { candidate_id, reason } });
    await queries.invalidateQueries();
  };
  return (
    <section className="box" style={{ marginBottom: 12 }} aria-label={`Agent ${agent.name}`}>
      <div className="row">
        <h2 style={{ margin: 0 }}>{line(agent.name, 100)}</h2>
        <div className="row" style={{ marginLeft: "auto" }}>
          <Ask
            label={agent.substitute ? "Stop replacing prompts …" : "Replace prompts …"}
            title={agent.substitute ? `Leave the prompts of ${agent.name} as they are?` : `Replace the prompts of ${agent.name}?`}
            confirm={agent.substitute ? "Leave them" : "Replace them"}
            needs="admin"
            act={() => put({ substitute: !agent.substitute })}
            done={agent.substitute ? `The prompts of ${agent.name} stay as it sends them.` : `The gateway replaces the prompts of ${agent.name}.`}
          >
            <p>
              {agent.substitute
                ? "Its calls through the gateway go on with the prompts that the agent itself sends, from the next call on."
                : "The gateway replaces the prompts that it recognises by those of the active release, from the next call on. The same button takes it back."}
            </p>
          </Ask>
        </div>
      </div>
      <Facts
        of={[
          ["prompts at the gateway", agent.substitute ? "replaced by the active release’s" : "left as the agent sends them"],
          ["mirrored calls", agent.mirror == null ? "as the agent or ratchet.toml says" : `${number(100 * agent.mirror)} %`],
          ["runs now", active?.candidate_id ? <Link key="active" to={pathOf("candidate", active.candidate_id)}>{short(active.candidate_id)}</Link> : "its own source"],
          ["autopilot", cycle && <Link key="cycle" to={pathOf("cycle", cycle.id)}>{words(cycle.state)}</Link>],
        ]}
      />
      {active?.candidate_id && <Texts candidate={active.candidate_id} />}
      {(history.data?.activations.length ?? 0) > 0 && (
        <details>
          <summary>What it ran before</summary>
          <div className="scroll" tabIndex={0}>
                    <table aria-label={`Activations of ${agent.name}`}>
            <tbody>
              {history.data?.activations.map((activation, at) => (
                <tr key={activation.activated_at}>
                  <td className="whole">{moment(activation.activated_at)}</td>
                  <td>{activation.candidate_id ? <Link to={pathOf("candidate", activation.candidate_id)}>{short(activation.candidate_id)}</Link> : "its own source"}</td>
                  <td className="wrap long">{line(activation.reason)}</td>
                  <td>
                    {at > 0 && activation.candidate_id !== active?.candidate_id && (
                      <Ask label="Make active again …" title={`Make ${activation.candidate_id ? short(activation.candidate_id) : "its own source"} active again?`} confirm="Make active" needs="admin" reason keeps="this list" done="It is active." act={activate(activation.candidate_id)}>
                        <p>
                          Calls of <b>{line(agent.name, 60)}</b> get it within two seconds, instead of what runs now; that stays in this list, and can be made active again in the same way.
                        </p>
                      </Ask>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          </div>
        </details>
      )}
    </section>
  );
}

function Texts({ candidate }: { candidate: string }) {
  const view = useQuery({ queryKey: ["candidates", candidate], refetchInterval: false, queryFn: () => api.GET("/v1/candidates/{id}", { params: { path: { id: candidate } } }) });
  const changes = useQuery({
    queryKey: ["changes", candidate, view.data?.parents[0]],
    enabled: view.data !== undefined,
    refetchInterval: false,
    queryFn: () => api.GET("/v1/candidates/{id}/changes", { params: { path: { id: candidate }, query: {} } }),
  });
  return (
    <>
      {changes.data?.changes
        .filter((change) => change.kind === "prompt")
        .map((change) => (
          <details key={change.name}>
            <summary>{line(change.name)}</summary>
            <LongText text={change.after ?? ""} />
          </details>
        ))}
    </>
  );
}
