// What ratchet.toml says, with defaults. It is changed in an editor, where others can review it.
import { useQuery } from "@tanstack/react-query";
import { api } from "../../api/client";
import { line } from "../../lib/format";
import { Empty, Facts, waiting } from "../../ui/basics";

const valueOf = (value: unknown): string => line(typeof value === "string" ? value : Array.isArray(value) ? value.join(", ") : JSON.stringify(value ?? ""), 200).replace(/^""$/, "") || "none";

export function FileSettings() {
  const found = useQuery({ queryKey: ["project-settings"], queryFn: () => api.GET("/v1/project-settings") });
  const sections = found.data?.sections;
  return (
    <>
      <h2>Settings in ratchet.toml</h2>
      {waiting(found)}
      {sections?.length === 0 && <Empty command="ratchet serve">The server was not started in a project, so it has no ratchet.toml. In the project’s folder:</Empty>}
      {sections && sections.length > 0 && <p className="muted">With defaults; what the file sets is marked “set”. To change a value, edit ratchet.toml.</p>}
      <div className="grid">
        {sections?.map((section) => (
          <section key={section.name} className="box" aria-label={section.name}>
            <h3 style={{ marginTop: 0 }}>{section.about}</h3>
            <code className="muted">[{section.name}]</code>
            <Facts
              of={section.settings.map((setting) => [
                setting.name,
                <span key={setting.name} className="row" style={{ alignItems: "baseline" }}>
                  <span className="muted small" style={{ flexBasis: "100%" }}>{setting.about}</span>
                  {valueOf(setting.value)} {setting.is_set && <span className="badge info">set</span>}
                </span>,
              ])}
            />
          </section>
        ))}
      </div>
    </>
  );
}
