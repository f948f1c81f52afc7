// Every page has a URL; its filters and its selection live in the search part.
import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { root as mounted } from "./api/client";
import { Shell } from "./ui/shell";

const rootRoute = createRootRoute({ component: Shell });

type Search = Record<string, string | undefined>;
/** Search parameters are texts; what a page does not know is dropped, and empty ones are too. */
const only =
  (...names: string[]) =>
  (search: Record<string, unknown>): Search => {
    const kept: Search = {};
    for (const name of names) if (search[name] != null && search[name] !== "") kept[name] = String(search[name]);
    return kept;
  };

const home = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  validateSearch: only("hours"),
  component: lazyRouteComponent(() => import("./features/home/page"), "HomePage"),
});
const traces = createRoute({
  getParentRoute: () => rootRoute,
  path: "/traces",
  validateSearch: only("agent", "errors", "feedback", "rollouts", "name", "since", "min_duration_s", "min_cost_usd", "conversation_id", "sort"),
  component: lazyRouteComponent(() => import("./features/traces/list"), "TracesPage"),
});
const trace = createRoute({
  getParentRoute: () => rootRoute,
  path: "/traces/$id",
  validateSearch: only("span", "view", "with"),
  component: lazyRouteComponent(() => import("./features/traces/page"), "TracePage"),
});
const runs = createRoute({
  getParentRoute: () => rootRoute,
  path: "/runs",
  component: lazyRouteComponent(() => import("./features/runs/list"), "RunsPage"),
});
const run = createRoute({
  getParentRoute: () => rootRoute,
  path: "/runs/$id",
  validateSearch: only("candidate", "other", "view"),
  component: lazyRouteComponent(() => import("./features/runs/page"), "RunPage"),
});
const experiments = createRoute({
  getParentRoute: () => rootRoute,
  path: "/experiments",
  component: lazyRouteComponent(() => import("./features/experiments/list"), "ExperimentsPage"),
});
const experiment = createRoute({
  getParentRoute: () => rootRoute,
  path: "/experiments/$id",
  component: lazyRouteComponent(() => import("./features/experiments/page"), "ExperimentPage"),
});
const releases = createRoute({
  getParentRoute: () => rootRoute,
  path: "/releases",
  component: lazyRouteComponent(() => import("./features/releases/list"), "ReleasesPage"),
});
const release = createRoute({
  getParentRoute: () => rootRoute,
  path: "/releases/$id",
  component: lazyRouteComponent(() => import("./features/releases/page"), "ReleasePage"),
});

const pages = rootRoute.addChildren([home, traces, trace, runs, run, experiments, experiment, releases, release]);

/** A search part that reads as one writes it by hand: ?agent=support&errors=1. */
const parseSearch = (text: string): Record<string, unknown> => Object.fromEntries(new URLSearchParams(text));
const stringifySearch = (search: Record<string, unknown>): string => {
  const pairs = Object.entries(search).filter(([, value]) => value !== undefined && value !== "");
  return pairs.length ? `?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}` : "";
};

export const router = createRouter({
  routeTree: pages,
  basepath: mounted || "/",
  parseSearch,
  stringifySearch,
  defaultPreload: false,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
