import { useQuery } from "@tanstack/react-query";
import { api } from "../../api/client";

/** Fields that the server leaves out when they have these values. */
const DEFAULTS = { parent_id: null, operation: "step", status: "unset", message: "", model: "", input_tokens: 0, output_tokens: 0, cost_usd: null, unmeasured: "" } as const;

/** A trace's spans without what they hold. */
export function useSkeleton(id: string) {
  return useQuery({
    queryKey: ["traces", "skeleton", id],
    queryFn: async () => {
      const found = await api.GET("/v1/traces/{id}/skeleton", { params: { path: { id } } });
      return { ...found, spans: found.spans.map((span) => ({ ...DEFAULTS, ...span })) };
    },
  });
}
