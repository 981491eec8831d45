#!/usr/bin/env node
// The file behind `npm start`, and `herald` itself. Plain JavaScript, because an older Node can't read the rest and must say so in words.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
// Node would open its debugger to everybody on this machine on this signal.
process.on("SIGUSR1", () => {});
if (major > 24 || (major === 24 && minor >= 15)) {
  // Compiled code is kept beside the packages: the next start is quicker and needs 25 MB less, because nothing has to be
  // translated. Where that folder can't be written there is no cache, and nothing else changes.
  const { enableCompileCache } = await import("node:module");
  enableCompileCache(`${import.meta.dirname}/../node_modules/.cache/herald`);
  const { runHerald } = await import("./cli/cli.ts");
  await runHerald(process.argv.slice(2));
} else {
  process.stderr.write(
    `Herald needs Node 24.15 or newer; this is ${process.versions.node}. In the repository "npm ci" brings the right one along, and "npm start" uses it.\n`,
  );
  process.exitCode = 1;
}
