// The list of rollouts: what figures of runs, experiments and stages count. Filters live in the URL.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { address, api, type Schemas } from "../../api/client";
import { counted, dollars, duration, line, number, short } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Page, State, Time, waiting } from "../../ui/basics";
import { Rows } from "../../ui/rows";

const STATUSES = ["queued", "running", "succeeded", "failed", "timed_out", "crashed", "cancelled"] as const;
type Filters = Partial<Record<"queue" | "purpose" | "candidate" | "task" | "status", string>>;

const queryOf = (filters: Record<string, string | undefined>): string => {
  const given = Object.entries(filters).filter((each): each is [string, string] => each[1] !== undefined);
  return given.length ? `?${new URLSearchParams(given)}` : "";
};

export function RolloutsPage() {
  const search: Filters = useSearch({ from: "/rollouts" });
  const navigate = useNavigate({ from: "/rollouts" });
  const status = STATUSES.find((each) => each === search.status);
  const of = { queue: search.queue, purpose: search.purpose, candidate_id: search.candidate, task_id: search.task };
  const pages = useInfiniteQuery({
    queryKey: ["rollouts", "list", of, status],
    initialPageParam: undefined as string | undefined,
    refetchInterval: false,
    queryFn: ({ pageParam }) => api.GET("/v1/rollouts", { params: { query: { ...of, status, limit: 100, cursor: pageParam } } }),
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  const counts = useQuery({ queryKey: ["rollouts", "counts", of], queryFn: () => api.GET("/v1/rollouts/counts", { params: { query: of } }) });
  const rollouts = pages.data?.pages.flatMap((page) => page.rollouts) ?? [];
  const found = Object.entries(counts.data?.counts ?? {}) as [string, number][];
  const total = found.filter(([each]) => !status || each === status).reduce((sum, [, count]) => sum + count, 0);
  const set = (changed: Filters) => void navigate({ search: (before: Filters) => ({ ...before, ...changed }), replace: true });
  return (
    <Page title="Rollouts" actions={<Command text={`curl '${address()}/v1/rollouts${queryOf({ ...of, status })}'`} />}>
      <form className="row" role="search" onSubmit={(event) => event.preventDefault()}>
        <label>
          Status
          <select value={status ?? ""} onChange={(event) => set({ status: event.target.value || undefined })}>
            <option value="">any</option>
            {STATUSES.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        {(["queue", "purpose", "candidate", "task"] as const).map((name) => (
          <label key={name}>
            {name === "purpose" ? "Purpose begins" : name[0]!.toUpperCase() + name.slice(1)}
            <input type="search" key={search[name] ?? ""} defaultValue={search[name] ?? ""} onBlur={(event) => set({ [name]: event.target.value.trim() || undefined })} onKeyDown={(event) => event.key === "Enter" && set({ [name]: event.currentTarget.value.trim() || undefined })} />
          </label>
        ))}
      </form>
      {counts.data && (
        <p className="muted">
          {counted(total, "rollout")}
          {found.length > 1 && `: ${found.map(([each, count]) => `${number(count)} ${each}`).join(", ")}`}
        </p>
      )}
      {waiting(pages)}
      {pages.data && rollouts.length === 0 && <Empty command={Object.keys(search).length ? undefined : "ratchet eval"}>{Object.keys(search).length ? "No rollout fits these filters." : "A rollout is one execution of the agent on a task. None has been made yet:"}</Empty>}
      {rollouts.length > 0 && (
        <Rows>
          <table aria-label="Rollouts">
            <thead>
              <tr>
                <th>created</th>
                <th>rollout</th>
                <th>status</th>
                <th>task</th>
                <th>candidate</th>
                <th>for</th>
                <th className="num">took</th>
                <th className="num">cost</th>
              </tr>
            </thead>
            <tbody>
              {rollouts.map((each) => (
                <Row key={each.id} rollout={each} />
              ))}
            </tbody>
          </table>
        </Rows>
      )}
      {pages.hasNextPage && (
        <button type="button" disabled={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
          More of {counted(total, "rollout")}
        </button>
      )}
    </Page>
  );
}

function Row({ rollout }: { rollout: Schemas["Rollout"] }) {
  return (
    <tr>
      <td>
        <Time at={rollout.created_at} />
      </td>
      <td>
        <Link to={pathOf("rollout", rollout.id)}>
          <code>{short(rollout.id)}</code>
        </Link>
      </td>
      <td>
        <State of={rollout.status} />
      </td>
      <td className="wrap">{line(rollout.task_id, 60)}</td>
      <td>{rollout.candidate_id && <Link to={pathOf("candidate", rollout.candidate_id)}>{short(rollout.candidate_id)}</Link>}</td>
      <td className="wrap">{line(rollout.purpose, 60)}</td>
      <td className="num">{duration(rollout.duration_s)}</td>
      <td className="num">{dollars(rollout.cost_usd, rollout.known_usd)}</td>
    </tr>
  );
}
