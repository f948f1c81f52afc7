import { useQuery } from "@tanstack/react-query";
import { api } from "../api/client";

/** Who is logged in, and what that allows. */
export function useSession() {
  return useQuery({ queryKey: ["session"], queryFn: () => api.GET("/v1/session"), refetchInterval: 30_000 });
}
