import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { address, api } from "../../api/client";
import { line, number, quoted } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Page, Time, waiting } from "../../ui/basics";
import { Rows } from "../../ui/rows";

export function ConversationsPage() {
  const search = useSearch({ from: "/conversations" });
  const navigate = useNavigate({ from: "/conversations" });
  const query = { agent: search.agent, rollouts: search.rollouts === "1" || undefined };
  const pages = useInfiniteQuery({
    queryKey: ["conversations", query],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => api.GET("/v1/conversations", { params: { query: { ...query, limit: 100, cursor: pageParam } } }),
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  const conversations = pages.data?.pages.flatMap((page) => page.conversations) ?? [];
  return (
    <Page title="Conversations" actions={<Command text={`ratchet conversations${search.agent ? ` --agent ${quoted(search.agent)}` : ""}`} />}>
      <div className="row">
        <label>
          Agent
          <input type="search" defaultValue={search.agent ?? ""} onChange={(event) => void navigate({ search: { ...search, agent: event.target.value || undefined }, replace: true })} />
        </label>
        <label>
          <input type="checkbox" checked={search.rollouts === "1"} onChange={(event) => void navigate({ search: { ...search, rollouts: event.target.checked ? "1" : undefined }, replace: true })} />
          of rollouts
        </label>
      </div>
      {waiting(pages)}
      {pages.data && conversations.length === 0 && <Empty command={`OPENAI_BASE_URL=${address()}/gateway/my-agent/openai/v1 python my_agent.py`}>No conversation has been received. Spans that name a gen_ai.conversation.id belong to one; at the gateway a conversation is found in its calls:</Empty>}
      {conversations.length > 0 && (
        <Rows>
          <table aria-label="Conversations">
            <thead>
              <tr>
                <th>last active</th>
                <th>conversation</th>
                <th>agent</th>
                <th className="num">turns</th>
                <th className="num">lowest feedback</th>
              </tr>
            </thead>
            <tbody>
              {conversations.map((each) => (
                <tr key={each.id}>
                  <td>
                    <Time at={each.last_ns / 1e9} />
                  </td>
                  <td className="wrap">
                    <Link to={pathOf("conversation", each.id)}>{line(each.title || each.id, 120)}</Link>{" "}
                    {each.title && <span className="muted small">{line(each.id, 60)}</span>}
                  </td>
                  <td className="wrap">{line(each.agent, 60)}</td>
                  <td className="num">{number(each.turns)}</td>
                  <td className="num">{each.feedback ? `${number(each.worst)} (${each.feedback})` : ""}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Rows>
      )}
      {pages.hasNextPage && (
        <button type="button" onClick={() => void pages.fetchNextPage()}>
          More
        </button>
      )}
    </Page>
  );
}
