// Every page has a URL; its filters and its selection live in the search part.
import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { root as mounted } from "./api/client";
import { NotFound } from "./ui/not_found";
import { Shell } from "./ui/shell";

const rootRoute = createRootRoute({ component: Shell, notFoundComponent: NotFound });

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
  validateSearch: only("q", "model", "user", "agent", "errors", "feedback", "rollouts", "name", "since", "from", "until", "candidate", "canary", "arm", "group", "min_duration_s", "min_cost_usd", "conversation_id", "sort"),
  component: lazyRouteComponent(() => import("./features/traces/list"), "TracesPage"),
});
const trace = createRoute({
  getParentRoute: () => rootRoute,
  path: "/traces/$id",
  validateSearch: only("span", "view", "with", "rerun"),
  component: lazyRouteComponent(() => import("./features/traces/page"), "TracePage"),
});
const problems = createRoute({
  getParentRoute: () => rootRoute,
  path: "/problems",
  validateSearch: only("agent", "state"),
  component: lazyRouteComponent(() => import("./features/problems/list"), "ProblemsPage"),
});
const problem = createRoute({
  getParentRoute: () => rootRoute,
  path: "/problems/$id",
  component: lazyRouteComponent(() => import("./features/problems/page"), "ProblemPage"),
});
const models = createRoute({
  getParentRoute: () => rootRoute,
  path: "/models",
  component: lazyRouteComponent(() => import("./features/models/page"), "ModelsPage"),
});
const autopilot = createRoute({
  getParentRoute: () => rootRoute,
  path: "/autopilot",
  component: lazyRouteComponent(() => import("./features/autopilot/page"), "AutopilotPage"),
});
const runs = createRoute({
  getParentRoute: () => rootRoute,
  path: "/runs",
  component: lazyRouteComponent(() => import("./features/runs/list"), "RunsPage"),
});
const run = createRoute({
  getParentRoute: () => rootRoute,
  path: "/runs/$id",
  validateSearch: only("candidate", "other", "view", "split", "outcome"),
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
  validateSearch: only("pairs", "metric", "show"),
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

const conversations = createRoute({
  getParentRoute: () => rootRoute,
  path: "/conversations",
  validateSearch: only("agent", "rollouts"),
  component: lazyRouteComponent(() => import("./features/conversations/list"), "ConversationsPage"),
});
const conversation = createRoute({
  getParentRoute: () => rootRoute,
  path: "/conversations/$id",
  component: lazyRouteComponent(() => import("./features/conversations/page"), "ConversationPage"),
});
const rollouts = createRoute({
  getParentRoute: () => rootRoute,
  path: "/rollouts",
  validateSearch: only("queue", "purpose", "candidate", "task", "status"),
  component: lazyRouteComponent(() => import("./features/rollouts/list"), "RolloutsPage"),
});
const labels = createRoute({
  getParentRoute: () => rootRoute,
  path: "/labels",
  validateSearch: only("criterion"),
  component: lazyRouteComponent(() => import("./features/evaluators/labels"), "LabelsPage"),
});
const rollout = createRoute({
  getParentRoute: () => rootRoute,
  path: "/rollouts/$id",
  validateSearch: only("rerun"),
  component: lazyRouteComponent(() => import("./features/rollouts/page"), "RolloutPage"),
});
const candidate = createRoute({
  getParentRoute: () => rootRoute,
  path: "/candidates/$id",
  validateSearch: only("since"),
  component: lazyRouteComponent(() => import("./features/candidates/page"), "CandidatePage"),
});
const cycle = createRoute({
  getParentRoute: () => rootRoute,
  path: "/cycles/$id",
  validateSearch: only("stage", "which", "group"),
  component: lazyRouteComponent(() => import("./features/cycles/page"), "CyclePage"),
});
const datasets = createRoute({
  getParentRoute: () => rootRoute,
  path: "/datasets",
  component: lazyRouteComponent(() => import("./features/datasets/list"), "DatasetsPage"),
});
const dataset = createRoute({
  getParentRoute: () => rootRoute,
  path: "/datasets/$name",
  validateSearch: only("version", "against", "split", "q", "task", "kind"),
  component: lazyRouteComponent(() => import("./features/datasets/page"), "DatasetPage"),
});
const evaluators = createRoute({
  getParentRoute: () => rootRoute,
  path: "/evaluators",
  component: lazyRouteComponent(() => import("./features/evaluators/list"), "EvaluatorsPage"),
});
const evaluator = createRoute({
  getParentRoute: () => rootRoute,
  path: "/evaluators/$id",
  validateSearch: only("of"),
  component: lazyRouteComponent(() => import("./features/evaluators/page"), "EvaluatorPage"),
});
const labelling = createRoute({
  getParentRoute: () => rootRoute,
  path: "/labelling",
  validateSearch: only("of", "criterion"),
  component: lazyRouteComponent(() => import("./features/evaluators/labelling"), "LabellingPage"),
});
const training = createRoute({
  getParentRoute: () => rootRoute,
  path: "/training",
  component: lazyRouteComponent(() => import("./features/training/list"), "TrainingPage"),
});
const trainingRun = createRoute({
  getParentRoute: () => rootRoute,
  path: "/training/$name",
  component: lazyRouteComponent(() => import("./features/training/page"), "TrainingRunPage"),
});
const agents = createRoute({
  getParentRoute: () => rootRoute,
  path: "/agents",
  component: lazyRouteComponent(() => import("./features/agents/page"), "AgentsPage"),
});
const settings = createRoute({
  getParentRoute: () => rootRoute,
  path: "/settings",
  component: lazyRouteComponent(() => import("./features/settings/page"), "SettingsPage"),
});

const pages = rootRoute.addChildren([
  home, traces, trace, problems, problem, models, autopilot, conversations, conversation, rollouts, rollout, labels, datasets, dataset, evaluators, evaluator, labelling,
  runs, run, candidate, experiments, experiment, releases, release, cycle, training, trainingRun, agents, settings,
]);

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
