import { useQuery } from "@tanstack/react-query";
import { api, type Schemas } from "../api/client";

/** Who is logged in, and what that allows. */
export function useSession() {
  return useQuery({ queryKey: ["session"], queryFn: () => api.GET("/v1/session"), refetchInterval: 30_000 });
}

export type Scope = Schemas["Session"]["scopes"][number];

/** Whether the caller may do what needs a scope; the server decides, this only says so beforehand. */
export function useAllowed(needs: Scope | undefined): boolean {
  const scopes = useSession().data?.scopes;
  return needs === undefined || scopes === undefined || scopes.includes(needs) || scopes.includes("admin");
}
