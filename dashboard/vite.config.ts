import { readFileSync } from "node:fs";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

// `npm run dev` serves the page with the API of a `ratchet serve` on its usual port.
const server = "http://127.0.0.1:8765";

/** The licence of the font, which must go where the font goes. */
const fontLicence: Plugin = {
  name: "font-licence",
  apply: "build",
  generateBundle() {
    this.emitFile({ type: "asset", fileName: "assets/inter-LICENSE.txt", source: readFileSync("node_modules/@fontsource-variable/inter/LICENSE") });
  },
};

export default defineConfig({
  plugins: [react(), fontLicence],
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
