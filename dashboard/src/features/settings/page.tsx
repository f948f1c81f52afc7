// Settings: keys, the audit log of who changed what, and what ratchet.toml says.
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, type Schemas } from "../../api/client";
import { line, moment } from "../../lib/format";
import { Command, Copy, Page, Problem, State, Time, waiting } from "../../ui/basics";
import { Ask } from "../../ui/dialog";
import { useSession } from "../../ui/session";
import { toast } from "../../ui/toast";
import { FileSettings } from "./file_settings";

const SCOPES = ["read", "runner", "develop", "ingest", "feedback", "admin"] as const;

export function SettingsPage() {
  const session = useSession();
  const admin = session.data?.scopes.includes("admin");
  return (
    <Page title="Settings" actions={<Command text="ratchet keys list" />}>
      {admin ? (
        <>
          <Keys />
          <Audit />
        </>
      ) : (
        <p className="note">Keys and the audit log need a key with the scope admin; yours has {session.data?.scopes.join(", ") || "none"}.</p>
      )}
      <FileSettings />
    </Page>
  );
}

function Keys() {
  const queries = useQueryClient();
  const keys = useQuery({ queryKey: ["keys"], queryFn: () => api.GET("/v1/keys") });
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<string[]>(["read"]);
  const [days, setDays] = useState("");
  const [made, setMade] = useState<Schemas["MadeKey"]>();
  const [error, setError] = useState<unknown>(null);
  const create = async (event: FormEvent) => {
    event.preventDefault();
    setError(null);
    try {
      const expires_in_s = days ? Number(days) * 86_400 : undefined;
      const answer = await api.POST("/v1/keys", { body: { name: name.trim(), scopes: scopes as Schemas["Key"]["scopes"], expires_in_s } });
      setMade(answer);
      toast(`The key ${line(answer.key.name, 60)} is made. Its secret is shown only now.`);
      setName("");
      await queries.invalidateQueries({ queryKey: ["keys"] });
    } catch (failure) {
      setError(failure);
    }
  };
  return (
    <>
      <h2>Keys</h2>
      {waiting(keys)}
      {(keys.data?.keys.length ?? 0) > 0 && (
        <div className="scroll" tabIndex={0}>
          <table aria-label="Keys">
            <thead>
              <tr>
                <th>name</th>
                <th>scopes</th>
                <th>made</th>
                <th>last used</th>
                <th>expires</th>
                <td />
              </tr>
            </thead>
            <tbody>
              {keys.data?.keys.map((key) => (
                <tr key={key.id}>
                  <td className="wrap">{line(key.name)}</td>
                  <td>{key.scopes.join(", ")}{key.agent && `, for the agent ${key.agent}`}</td>
                  <td>
                    <Time at={key.created_at} />
                  </td>
                  <td>{key.last_used_at ? <Time at={key.last_used_at} /> : "never"}</td>
                  <td>{key.expires_at ? <Time at={key.expires_at} /> : "never"}</td>
                  <td>
                    {key.revoked_at ? (
                      <State of="revoked" tone="bad" />
                    ) : (
                      <Ask
                        label="Revoke …"
                        title={`Revoke the key ${key.name}?`}
                        confirm="Revoke"
                        danger
                        done={`The key ${line(key.name, 60)} is revoked.`}
                        act={async () => {
                          await api.DELETE("/v1/keys/{id}", { params: { path: { id: key.id } } });
                          await queries.invalidateQueries({ queryKey: ["keys"] });
                        }}
                      >
                        <p>Every server of this store refuses it within two seconds, and whoever is logged in with it is logged out. It cannot be made valid again; make another one.</p>
                      </Ask>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <form className="row" onSubmit={(event) => void create(event)} style={{ marginTop: 8 }}>
        <label>
          Name
          <input type="text" value={name} onChange={(event) => setName(event.target.value)} />
        </label>
        <fieldset className="row" style={{ border: 0, padding: 0, margin: 0 }}>
          <legend className="skip">Scopes</legend>
          {SCOPES.map((scope) => (
            <label key={scope}>
              <input type="checkbox" checked={scopes.includes(scope)} onChange={(event) => setScopes(event.target.checked ? [...scopes, scope] : scopes.filter((each) => each !== scope))} />
              {scope}
            </label>
          ))}
        </fieldset>
        <label>
          Valid for (days)
          <input type="number" min={1} style={{ width: 80 }} placeholder="ever" value={days} onChange={(event) => setDays(event.target.value)} />
        </label>
        <button type="submit" disabled={!name.trim() || scopes.length === 0}>
          Make a key
        </button>
      </form>
      {error != null && <Problem error={error} />}
      {made && (
        <p className="note">
          The key of {made.key.name}, shown only now: <code>{made.secret}</code> <Copy text={made.secret} label="Copy the key" />
        </p>
      )}
    </>
  );
}

function Audit() {
  const pages = useInfiniteQuery({
    queryKey: ["audit"],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => api.GET("/v1/audit", { params: { query: { limit: 100, cursor: pageParam } } }),
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  const keys = useQuery({ queryKey: ["keys"], queryFn: () => api.GET("/v1/keys") });
  const names = new Map(keys.data?.keys.map((key) => [key.id, key.name]));
  const rows = pages.data?.pages.flatMap((page) => page.rows) ?? [];
  return (
    <>
      <h2>Audit log</h2>
      {waiting(pages)}
      {pages.data && rows.length === 0 && <p className="muted">Nothing has been changed or refused.</p>}
      {rows.length > 0 && (
        <div className="scroll" tabIndex={0}>
          <table aria-label="Audit log">
            <thead>
              <tr>
                <th>when</th>
                <th>who</th>
                <th>from</th>
                <th>what</th>
                <th>target</th>
                <th className="num">status</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row, at) => (
                <tr key={at}>
                  <td>{moment(row.at)}</td>
                  <td className="wrap">{line((row.key_id && names.get(row.key_id)) || row.key_id || "without a key")}</td>
                  <td>{line(row.address)}</td>
                  <td>{line(row.action)}</td>
                  <td className="wrap">{line(row.target)}</td>
                  <td className="num">{row.status}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {pages.hasNextPage && (
        <button type="button" onClick={() => void pages.fetchNextPage()}>
          More
        </button>
      )}
    </>
  );
}
