import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `npm run dev` serves the page with the API of a `ratchet serve` on its usual port.
const server = "http://127.0.0.1:8765";

export default defineConfig({
  plugins: [react()],
  base: "./",
  html: { cspNonce: "RATCHET_NONCE" },
  build: {
    outDir: "../src/ratchet/server/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    target: "es2022",
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    proxy: { "/v1": { target: server, changeOrigin: true }, "/healthz": server },
  },
});
