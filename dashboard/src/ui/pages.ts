/** The pages of the navigation, in its order. */
export const PAGES = [
  ["/", "Home"],
  ["/traces", "Traces"],
  ["/conversations", "Conversations"],
  ["/datasets", "Datasets"],
  ["/evaluators", "Evaluators"],
  ["/labelling", "Labelling"],
  ["/runs", "Runs"],
  ["/rollouts", "Rollouts"],
  ["/experiments", "Experiments"],
  ["/releases", "Releases"],
  ["/training", "Weights"],
  ["/agents", "Prompts"],
  ["/settings", "Settings"],
] as const;
