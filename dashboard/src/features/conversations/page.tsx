// A conversation: each message once, in order, with a link to the step that sent it.
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { api } from "../../api/client";
import { counted, line, moment, number, quoted } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Command, Facts, Page, waiting } from "../../ui/basics";
import { LongText } from "../../ui/long_text";
import { part } from "../traces/messages";
import { Shown } from "../traces/span_content";

export function ConversationPage() {
  const { id } = useParams({ from: "/conversations/$id" });
  const [nested, setNested] = useState(false);
  // An id with a slash is quoted once more: a path has no other way to hold it.
  const log = useQuery({ queryKey: ["conversations", id], queryFn: () => api.GET("/v1/conversations/{id}", { params: { path: { id: id.includes("/") ? encodeURIComponent(id) : id } } }) });
  const data = log.data;
  const inner = data?.messages.filter((message) => message.nested).length ?? 0;
  return (
    <Page title={line(data?.conversation.title || `Conversation ${id}`, 80)} actions={<Command text={`ratchet conversations show ${quoted(id)}`} />}>
      {waiting(log)}
      {data && (
        <>
          <Facts
            of={[
              ["id", <code key="id">{line(id, 80)}</code>],
              ["agent", <Link key="agent" to="/traces" search={{ agent: data.conversation.agent }}>{line(data.conversation.agent)}</Link>],
              ["turns", <Link key="turns" to="/traces" search={{ conversation_id: id }}>{counted(data.conversation.turns, "trace")}</Link>],
              ["began", moment(data.conversation.start_ns / 1e9)],
              ["last", moment(data.conversation.last_ns / 1e9)],
              ["lowest feedback", data.conversation.feedback ? number(data.conversation.worst) : ""],
            ]}
          />
          {data.cut && <p className="note">Messages are missing: recordings were cut off, or there are too many calls.</p>}
          {data.instructions.map((instructions, at) => (
            <details key={at}>
              <summary>
                System prompt{instructions.agent && ` of ${line(instructions.agent, 60)}`}, {counted(instructions.calls, "call")}
              </summary>
              <LongText text={instructions.text} />
            </details>
          ))}
          {inner > 0 && (
            <label>
              <input type="checkbox" checked={nested} onChange={(event) => setNested(event.target.checked)} />
              show {counted(inner, "message")} between agents
            </label>
          )}
          {data.messages
            .filter((message) => nested || !message.nested)
            .map((message, at) => (
              <div key={at} style={message.nested ? { marginLeft: 32 } : undefined}>
                <Shown message={{ role: message.agent ? `${message.role} · ${line(message.agent, 40)}` : message.role, parts: message.parts.map(part) }} kind={message.role} />
                <div className="small muted">
                  {moment(message.at_ns / 1e9)}, <Link to={pathOf("trace", message.trace_id)} search={{ span: message.span_id }}>its step</Link>
                </div>
              </div>
            ))}
        </>
      )}
    </Page>
  );
}
