// Problems: what is wrong with the agents, worst first.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { api, type Schemas } from "../../api/client";
import { counted, line, number, quoted, words } from "../../lib/format";
import { Command, Empty, Page, Time, waiting } from "../../ui/basics";
import { ProblemRow } from "./row";
import { isOpen, shareOf } from "./words";

type State = Schemas["Problem"]["state"];
const STATES: State[] = ["open", "returned", "learning", "proposed", "fixed", "ignored"];

export function useProblems(agent?: string) {
  return useQuery({
    queryKey: ["problems", { agent }],
    queryFn: () => api.GET("/v1/problems", { params: { query: { agent } } }),
    placeholderData: (before) => before,
  });
}

export function ProblemsPage() {
  const search = useSearch({ from: "/problems" });
  const navigate = useNavigate({ from: "/problems" });
  const everywhere = useProblems();
  const found = useProblems(search.agent);
  const all = found.data?.problems ?? [];
  const agents = [...new Set(everywhere.data?.problems.map((each) => each.problem.agent))].sort();
  const shown = all.filter((each) => (search.state ? search.state === "all" || each.problem.state === search.state : isOpen(each.problem.state)));
  const count = (state: State) => all.filter((each) => each.problem.state === state).length;
  return (
    <Page title="Problems" actions={<Command text={`ratchet problems${search.agent ? ` --agent ${quoted(search.agent)}` : ""}${search.state ? ` --state ${quoted(search.state)}` : ""}`} />}>
      {waiting(found)}
      {found.data && all.length === 0 && <NoProblems of={found.data} agent={search.agent} />}
      {all.length > 0 && (
        <>
          <p className="muted">
            Kinds of failure in {number(found.data?.traces)} live traces of the last {number(found.data?.days)} days, worst first: share of traffic times how bad it is.
            {found.data?.scanned_at ? (
              <>
                {" "}
                Looked for <Time at={found.data.scanned_at} />.
              </>
            ) : null}
          </p>
          <div className="row" style={{ margin: "12px 0" }}>
            <nav className="row" aria-label="States" style={{ gap: 6 }}>
              <Filter label="to be fixed" state={undefined} count={all.filter((each) => isOpen(each.problem.state)).length} />
              {STATES.filter((state) => count(state) > 0).map((state) => (
                <Filter key={state} label={words(state)} state={state} count={count(state)} />
              ))}
              <Filter label="all" state="all" count={all.length} />
            </nav>
            {agents.length > 1 && (
              <label style={{ marginLeft: "auto" }}>
                Agent
                <select value={search.agent ?? ""} onChange={(event) => void navigate({ search: { ...search, agent: event.target.value || undefined }, replace: true })}>
                  <option value="">all</option>
                  {agents.map((agent) => (
                    <option key={agent} value={agent}>
                      {line(agent, 40)}
                    </option>
                  ))}
                </select>
              </label>
            )}
          </div>
          {shown.length > 0 ? (
            <ul className="bare problems" aria-label="Problems">
              {shown.map((each) => (
                <ProblemRow key={each.problem.id} of={each} withAgent={agents.length > 1} />
              ))}
            </ul>
          ) : (
            <p className="muted">{search.state ? "No problem is in this state." : "Every problem that was found is fixed or ignored; the states above show them."}</p>
          )}
        </>
      )}
      {found.data && <Coverage of={found.data} />}
    </Page>
  );
}

/** How many failing traces the list leaves out, and how many a coach can sort into it. */
function Coverage({ of }: { of: Schemas["ProblemList"] }) {
  const { failing, in_no_problem, unread } = of;
  if (failing === 0) return null;
  return (
    <>
      <p className="muted" style={{ marginTop: 12 }}>
        {in_no_problem === 0
          ? `No failing trace is left out: ${number(failing)} of ${number(failing)} are in a problem.`
          : `${number(in_no_problem)} of ${counted(failing, "failing trace")} (${shareOf(in_no_problem / failing)}) ${in_no_problem === 1 ? "is" : "are"} in no problem yet: too few resemble one another.`}
      </p>
      {unread > 0 && (
        <div className="note">
          <p>The coach can read {counted(unread, "failing trace")} and say what went wrong in each. Traces with the same mistake become one problem.</p>
          <Command text="ratchet problems read" />
        </div>
      )}
    </>
  );
}

function Filter({ label, state, count }: { label: string; state: string | undefined; count: number }) {
  const search = useSearch({ from: "/problems" });
  const chosen = search.state === state;
  return (
    <Link to="/problems" search={{ ...search, state }} className={chosen ? "badge info" : "badge"} aria-current={chosen ? "true" : undefined}>
      {label} {number(count)}
    </Link>
  );
}

/** Nothing was found, or nothing was looked at: which, and what comes next. */
export function NoProblems({ of, agent }: { of: Schemas["ProblemList"]; agent?: string }) {
  const { traces, days, scanned_at } = of;
  if (traces === 0) {
    const none = `No live trace${agent ? ` of ${line(agent, 60)}` : ""} has been received in the last ${days} days.`;
    return <Empty command="ratchet init">A problem is a kind of failure in live traffic. {none} Wire the agent, so that it sends some:</Empty>;
  }
  if (!scanned_at) return <Empty command="ratchet problems">Problems have not been looked for yet in {number(traces)} traces. The autopilot does it as traces come; at once:</Empty>;
  return <Empty command="ratchet problems">No problem was found in {number(traces)} live traces: no kind of failure comes up often enough to be one.</Empty>;
}
