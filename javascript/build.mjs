// Compiles src/ into dist/: one CommonJS build, and a module that hands the same exports to `import`.
//
// The state of a process (the context, what is not sent yet) must exist once, however it is loaded.
import { execFileSync } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = dirname(fileURLToPath(import.meta.url));
const require = createRequire(import.meta.url);

rmSync(join(folder, "dist"), { recursive: true, force: true });
const { bin } = require("typescript/package.json");
const compiler = join(dirname(require.resolve("typescript/package.json")), bin.tsc);
execFileSync(process.execPath, [compiler, "-p", folder], { stdio: "inherit" });

const names = Object.keys(require("./dist/index.js")).sort();
writeFileSync(
  join(folder, "dist", "index.mjs"),
  `import ratchet from "./index.js";\nexport const { ${names.join(", ")} } = ratchet;\n`,
);
const types = readFileSync(join(folder, "dist", "index.d.ts"), "utf8");
writeFileSync(join(folder, "dist", "index.d.mts"), types.replaceAll(/(from "\.\/[\w-]+)"/g, '$1.js"'));
