// Named filters, kept in this browser.
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

const KEY = "ratchet.views.traces";
type Views = Record<string, Record<string, string | undefined>>;

function read(): Views {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return found && typeof found === "object" && !Array.isArray(found) ? (found as Views) : {};
  } catch {
    return {};
  }
}

export function SavedViews() {
  const search = useSearch({ from: "/traces" });
  const navigate = useNavigate({ from: "/traces" });
  const [views, setViews] = useState(read);
  const [name, setName] = useState("");
  const keep = (changed: Views) => {
    setViews(changed);
    try {
      localStorage.setItem(KEY, JSON.stringify(changed));
    } catch {
      // Storage is blocked: the view lasts as long as the page.
    }
  };
  const current = Object.keys(views).find((each) => JSON.stringify(views[each]) === JSON.stringify(search)) ?? "";
  return (
    <span className="row">
      {Object.keys(views).length > 0 && (
        <label>
          View
          <select value={current} onChange={(event) => void navigate({ search: views[event.target.value] ?? {} })}>
            <option value="">–</option>
            {Object.keys(views).map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
      )}
      {current ? (
        <button
          type="button"
          onClick={() => {
            const { [current]: _, ...rest } = views;
            keep(rest);
          }}
        >
          Forget “{current}”
        </button>
      ) : (
        Object.keys(search).length > 0 && (
          <>
            <input type="text" aria-label="Name of the view" placeholder="Name of the view" style={{ width: 120 }} value={name} onChange={(event) => setName(event.target.value)} />
            <button
              type="button"
              disabled={!name.trim()}
              onClick={() => {
                keep({ ...views, [name.trim()]: search });
                setName("");
              }}
            >
              Save view
            </button>
          </>
        )
      )}
    </span>
  );
}
