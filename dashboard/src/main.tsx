import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { setNonce } from "get-nonce";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Refusal } from "./api/client";
import { follow } from "./api/live";
import { router } from "./router";
import "./styles/page.css";

// Dialogs lock scrolling with a style of their own, which the page's policy lets in by its nonce.
const nonce = document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce;
if (nonce) setNonce(nonce);

const queries = new QueryClient({
  queryCache: new QueryCache({
    // A key that was revoked while the page is open: the session is read again, and the login shown.
    onError: (error) => {
      if (error instanceof Refusal && error.status === 401) void queries.invalidateQueries({ queryKey: ["session"] });
    },
  }),
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      refetchInterval: 10_000,
      retry: (failures, error) => !(error instanceof Refusal && error.status >= 400 && error.status < 500) && failures < 2,
    },
  },
});
follow(queries);

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
