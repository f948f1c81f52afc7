// The frame around every page: navigation, connection, theme, search, login.
import { useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { Keyboard, Menu, Moon, Search, Sun } from "lucide-react";
import { type FormEvent, useEffect, useState } from "react";
import { api, root, type Schemas } from "../api/client";
import { useConnection } from "../api/live";
import { useArrival } from "../lib/arrive";
import { line } from "../lib/format";
import { useKeys } from "../lib/keys";
import { Loading, Problem } from "./basics";
import { KeysHelp } from "./keys_help";
import { GROUPS, HOME, type PlaceOfPage, SETTINGS } from "./pages";
import { Palette } from "./palette";
import { useSession } from "./session";
import { Toasts } from "./toast";

export function Shell() {
  const session = useSession();
  const [open, setOpen] = useState(false);
  const [finding, setFinding] = useState(false);
  const [helping, setHelping] = useState(false);
  useKeys({ "?": () => setHelping(true) });
  const path = useRouterState({ select: (state) => state.location.pathname });
  const connection = useConnection();
  useArrival();
  useEffect(() => setOpen(false), [path]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setFinding((shown) => !shown);
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  if (session.data && session.data.login === "key" && session.data.scopes.length === 0) return <Login provider={session.data.provider} />;
  return (
    <div className="frame">
      <a className="skip" href="#page">
        To the page
      </a>
      <header className={`side ${open ? "open" : ""}`}>
        <Link to="/" className="brand">
          <Mark /> Ratchet
        </Link>
        <button type="button" className="find" onClick={() => setFinding(true)}>
          <Search size={15} aria-hidden /> <span>Find</span> <kbd aria-hidden>⌘K</kbd>
        </button>
        <button type="button" className="menu" aria-expanded={open} onClick={() => setOpen(!open)}>
          <Menu size={15} aria-hidden /> Menu
        </button>
        <nav aria-label="Pages">
          <ul>
            <Item of={HOME} />
          </ul>
          {GROUPS.map(([group, pages]) => (
            <div key={group}>
              <div className="group" id={`group-${group}`}>
                {group}
              </div>
              <ul aria-labelledby={`group-${group}`}>
                {pages.map((each) => (
                  <Item key={each.to} of={each} />
                ))}
              </ul>
            </div>
          ))}
        </nav>
        <div className="foot">
          <ul>
            <Item of={SETTINGS} />
          </ul>
          <div className="acts">
            <Theme />
            <button type="button" className="icon-only" aria-label="Keys" title="Keys" onClick={() => setHelping(true)}>
              <Keyboard size={16} aria-hidden />
            </button>
          </div>
          <div className="who small">
            {connection === "polled" && <div title="The server answers, but its events do not come through: a proxy may hold them back. The page asks every few seconds.">no live events</div>}
            {session.data && <Account session={session.data} />}
          </div>
        </div>
      </header>
      <main className="page" id="page" tabIndex={-1}>
        {connection === "away" && (
          <div className="away" role="status">
            The server is away. What is shown may be old; the page goes on by itself.
          </div>
        )}
        {session.data || session.error ? <Outlet /> : <Loading />}
      </main>
      {finding && <Palette close={() => setFinding(false)} />}
      {helping && <KeysHelp close={() => setHelping(false)} />}
      <Toasts />
    </div>
  );
}

function Item({ of: { to, label, icon: Icon } }: { of: PlaceOfPage }) {
  return (
    <li>
      <Link to={to} className="item" activeOptions={{ exact: to === "/", includeSearch: false }}>
        <Icon size={16} strokeWidth={1.8} aria-hidden />
        {label}
      </Link>
    </li>
  );
}

function Mark() {
  return (
    <svg width="22" height="22" viewBox="0 0 32 32" aria-hidden>
      <rect width="32" height="32" rx="8" fill="var(--accent)" />
      <path d="M6 24 11 14l3 5 4-9 3 6 5-10" fill="none" stroke="var(--on-accent)" strokeWidth="2.6" strokeLinejoin="round" />
    </svg>
  );
}

function Theme() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "light");
  const other = theme === "dark" ? "light" : "dark";
  return (
    <button
      type="button"
      className="icon-only"
      aria-label={`${other === "dark" ? "Dark" : "Light"} theme`}
      title={`${other === "dark" ? "Dark" : "Light"} theme`}
      onClick={() => {
        document.documentElement.dataset.theme = other;
        try {
          localStorage.setItem("ratchet.theme", other);
        } catch {
          // Storage is blocked: the choice lasts as long as the page.
        }
        setTheme(other);
      }}
    >
      {other === "dark" ? <Moon size={16} aria-hidden /> : <Sun size={16} aria-hidden />}
    </button>
  );
}

function Account({ session }: { session: Schemas["Session"] }) {
  const queries = useQueryClient();
  if (session.login === "open") return <span title="Every program of this machine has full access">loopback, no key</span>;
  return (
    <span>
      {session.key_name}{" "}
      <button
        type="button"
        className="plain"
        onClick={() => void api.DELETE("/v1/session").finally(() => void queries.resetQueries())}
      >
        log out
      </button>
    </span>
  );
}

/** Why a login at the provider failed, by what the server says in the address. */
const FAILED: Record<string, string> = {
  denied: "The provider did not log you in.",
  expired: "The login took too long, or was begun in another browser. Try again.",
  provider: "The provider's answer could not be used. The server's log says why.",
  unknown: "You are logged in at the provider, but may not use this server. Its administrator can allow it under [server.oidc.allow].",
};

function Login({ provider }: { provider?: string }) {
  const failed = FAILED[new URLSearchParams(window.location.search).get("login") ?? ""];
  const here = window.location.pathname.slice(root.length) + window.location.search;
  const queries = useQueryClient();
  const [key, setKey] = useState("");
  const [error, setError] = useState<unknown>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    try {
      await api.POST("/v1/session", { body: { key: key.trim() } });
      await queries.resetQueries();
    } catch (failure) {
      setError(failure);
    }
  };
  return (
    <main className="inside" style={{ maxWidth: 440, margin: "12vh auto" }}>
      <form className="box stack" onSubmit={(event) => void submit(event)}>
        <h1>Ratchet</h1>
        {failed && (
          <p className="note bad" role="alert">
            {failed}
          </p>
        )}
        {provider && (
          <a className="button primary" href={`${root}/v1/login/oidc?${new URLSearchParams({ target: failed ? "/" : here })}`}>
            Log in with {line(provider, 60)}
          </a>
        )}
        <label className="stack" style={{ alignItems: "stretch" }}>
          Key
          <input
            type="password"
            autoComplete="current-password"
            value={key}
            onChange={(event) => setKey(event.target.value)}
            placeholder="rk_…"
          />
        </label>
        {error != null && <Problem error={error} />}
        <button type="submit" className="primary" disabled={!key.trim()}>
          Log in
        </button>
        <p className="muted small">
          Make one on the server's machine: <code>ratchet keys create NAME --scope read</code>
        </p>
      </form>
    </main>
  );
}
