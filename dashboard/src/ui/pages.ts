import {
  Activity,
  AlertTriangle,
  Bot,
  Cpu,
  Database,
  FlaskConical,
  Gauge,
  House,
  type LucideIcon,
  MessagesSquare,
  MessageSquareText,
  PenLine,
  Rocket,
  Settings,
  Workflow,
} from "lucide-react";

export interface PlaceOfPage {
  to: string;
  label: string;
  icon: LucideIcon;
}

const page = (to: string, label: string, icon: LucideIcon): PlaceOfPage => ({ to, label, icon });

export const HOME = page("/", "Home", House);
export const SETTINGS = page("/settings", "Settings", Settings);

/** The groups of the navigation, in the order in which the loop turns. */
export const GROUPS: [string, PlaceOfPage[]][] = [
  ["Observe", [page("/traces", "Traces", Activity), page("/conversations", "Conversations", MessagesSquare), page("/problems", "Problems", AlertTriangle)]],
  ["Evaluate", [page("/datasets", "Datasets", Database), page("/evaluators", "Evaluators", Gauge), page("/labelling", "Labelling", PenLine)]],
  ["Improve", [page("/runs", "Runs", Workflow), page("/experiments", "Experiments", FlaskConical), page("/models", "Models", Cpu)]],
  ["Ship", [page("/releases", "Releases", Rocket), page("/autopilot", "Autopilot", Bot), page("/agents", "Prompts", MessageSquareText)]],
];

/** What is found by name: the navigation, and pages that others lead to. */
export const PAGES: [string, string][] = [
  ...[HOME, ...GROUPS.flatMap(([, pages]) => pages), SETTINGS].map(({ to, label }): [string, string] => [to, label]),
  ["/rollouts", "Rollouts"],
  ["/labels", "Labels"],
  ["/training", "Weights"],
];
