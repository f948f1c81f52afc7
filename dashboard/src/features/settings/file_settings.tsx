// What ratchet.toml says: numbers, switches and choices can be changed, the rest is to look at.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, Refusal, type Schemas } from "../../api/client";
import { line } from "../../lib/format";
import { Empty, Facts, Problem, waiting } from "../../ui/basics";
import { Ask } from "../../ui/dialog";
import { toast } from "../../ui/toast";

type Setting = Schemas["ProjectSetting"];
type Change = Schemas["SettingChange"];

const valueOf = (value: unknown): string => line(typeof value === "string" ? value : Array.isArray(value) ? value.join(", ") : JSON.stringify(value ?? ""), 200).replace(/^""$/, "") || "none";
const said = (text: string | null | undefined): string => (text == null ? "not set" : line(text));

export function FileSettings() {
  const queries = useQueryClient();
  const found = useQuery({ queryKey: ["project-settings"], queryFn: () => api.GET("/v1/project-settings") });
  const [changed, setChanged] = useState<Change>();
  const [error, setError] = useState<unknown>(null);
  const write = async (key: string, value: string | null, digest: string) => {
    try {
      return await api.PUT("/v1/project-settings/{key}", { params: { path: { key } }, body: { value, digest } });
    } finally {
      await Promise.all(["project-settings", "audit"].map((name) => queries.invalidateQueries({ queryKey: [name] })));
    }
  };
  const undo = async (change: Change) => {
    setError(null);
    try {
      await write(change.key, change.before, change.digest);
      setChanged(undefined);
      toast(`${change.key} is as it was before.`);
    } catch (failure) {
      setError(failure);
    }
  };
  const file = found.data;
  return (
    <>
      <h2>Settings in ratchet.toml</h2>
      {waiting(found)}
      {file?.sections.length === 0 && <Empty command="ratchet serve">The server was not started in a project, so it has no ratchet.toml. In the project’s folder:</Empty>}
      {file && file.sections.length > 0 && (
        <p className="muted">
          With defaults; what the file sets is marked “set”. A change here is a change of the file. The same from a shell: <code>ratchet config set KEY VALUE</code>
        </p>
      )}
      {file?.read_only && <p className="note">{file.read_only} Nothing can be changed here.</p>}
      {changed && (
        <p className="note" role="status">
          <code>{changed.key}</code> was {said(changed.before)} and is {said(changed.after)} now. {changed.follows}{" "}
          <button type="button" className="plain" onClick={() => void undo(changed)}>
            undo
          </button>
        </p>
      )}
      {error != null && <Problem error={error} />}
      <div className="grid">
        {file?.sections.map((section) => {
          const why = section.settings[0]?.fixed;
          const whole = why && section.settings.every((each) => each.fixed === why) ? why : "";
          return (
            <section key={section.name} className="box" aria-label={section.name}>
              <h3 style={{ marginTop: 0 }}>{section.about}</h3>
              <code className="muted">[{section.name}]</code>
              {whole && <p className="muted small">{whole}</p>}
              <Facts
                of={section.settings.map((setting) => [
                  setting.name,
                  <span key={setting.name} className="row" style={{ alignItems: "baseline" }}>
                    <span className="muted small" style={{ flexBasis: "100%" }}>{setting.about}</span>
                    {valueOf(setting.value)} {setting.is_set && <span className="badge info">set</span>}
                    {setting.fixed && !whole && <span className="muted small">{setting.fixed}</span>}
                    {!setting.fixed && !file.read_only && (
                      <ChangeSetting
                        name={`${section.name}.${setting.name}`}
                        setting={setting}
                        digest={file.digest}
                        write={async (value) => {
                          setError(null);
                          setChanged(await write(`${section.name}.${setting.name}`, value, file.digest));
                        }}
                      />
                    )}
                  </span>,
                ])}
              />
            </section>
          );
        })}
      </div>
    </>
  );
}

/** Text of a value in the file, without the quotes of a text. */
const bare = (text: string | null | undefined): string => (text ?? "").replace(/^(['"])(.*)\1$/, "$2");

function ChangeSetting({ name, setting, digest, write }: { name: string; setting: Setting; digest: string; write: (value: string | null) => Promise<void> }) {
  const queries = useQueryClient();
  const [typed, setTyped] = useState<string>();
  const now = bare(setting.text);
  const wanted = typed ?? now;
  const value = wanted.trim() === "" ? null : wanted.trim();
  const differs = wanted.trim() !== now;
  const check = useQuery({
    queryKey: ["setting-check", name, value, digest],
    queryFn: async () => {
      try {
        return await api.POST("/v1/project-settings/{key}/check", { params: { path: { key: name } }, body: { value, digest } });
      } catch (failure) {
        // The file is another one: what is shown of it is read again.
        if (failure instanceof Refusal && failure.status === 409) await queries.invalidateQueries({ queryKey: ["project-settings"] });
        throw failure;
      }
    },
    enabled: differs,
    refetchInterval: false,
  });
  const none = `not set: ${valueOf(setting.default)}`;
  const options = setting.kind === "boolean" ? ["true", "false"] : setting.choices;
  return (
    <Ask
      label="change …"
      named={`Change ${name} …`}
      plain
      title={`Change ${name}?`}
      confirm="Write it to ratchet.toml"
      needs="admin"
      done={`${name} is saved in ratchet.toml.`}
      ready={differs && check.data !== undefined}
      act={async () => {
        await write(value);
        setTyped(undefined);
      }}
    >
      <p>{setting.about}</p>
      <label>
        {setting.name}
        {setting.kind === "boolean" || setting.kind === "choice" ? (
          <select value={wanted} onChange={(event) => setTyped(event.target.value)}>
            <option value="">{none}</option>
            {options?.map((each) => <option key={each}>{each}</option>)}
          </select>
        ) : (
          <input type="text" inputMode={setting.kind === "number" ? "decimal" : "text"} maxLength={200} value={wanted} placeholder={none} onChange={(event) => setTyped(event.target.value)} />
        )}
      </label>
      {differs && check.error != null && <Problem error={check.error} />}
      {differs && check.data && (
        <>
          <div className="diff" role="region" aria-label="Lines of ratchet.toml" tabIndex={0} style={{ marginTop: 12 }}>
            <pre>
              {check.data.diff.map((each, at) => (each.startsWith("+") ? <ins key={at}>{`${each}\n`}</ins> : <del key={at}>{`${each}\n`}</del>))}
            </pre>
          </div>
          <p>{check.data.follows}</p>
          <p className="muted">The audit log gets the old and the new value. To take it back: “undo” afterwards, or change it again.</p>
        </>
      )}
    </Ask>
  );
}
