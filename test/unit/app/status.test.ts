// What /status says, as text.
import { expect, it } from "vitest";
import { type StatusNow, type StatusSource, statusText } from "../../../src/app/status.ts";
import { configSchema } from "../../../src/config/schema.ts";

const source: StatusSource = {
  ...{ version: "1.2.3", model: "offline/rules", why: "no key", stateDir: "/state", config: configSchema.parse({}), channels: [] },
  sandbox: { available: false, reason: "not there", howTo: "install it" },
  ...{ mcp: [], problem: null },
};
const NOW: StatusNow = { lanes: [], openMessages: 0, nodes: [], at: 0 };

it("[CM8] whoever runs the gateway reads why and what to set; others read how things stand, and nothing of this machine", () => {
  const failed = { name: "files", state: "failed" as const, detail: "stderr: /home/ann/secret-project" };
  const full = statusText({ ...source, mcp: [failed] }, NOW, true);
  for (const part of ["(no key)", "TELEGRAM_BOT_TOKEN", "off: not there (install it)", "/home/ann", "State: /state"])
    expect(full).toContain(part);
  expect(statusText({ ...source, mcp: [failed], problem: "The folder /state is gone." }, NOW, false)).toBe(
    [
      "**Herald 1.2.3**",
      "⚠️ It can't take anything in at the moment; whoever runs it finds out why in its log.",
      "- Model: `offline/rules`",
      "- telegram: off",
      "- slack: off",
      "- matrix: off",
      "- discord: off",
      "- web: on",
      "- Lanes: ",
      "- exec: off",
      "- MCP files: failed",
      "- Messages still to deliver: 0",
    ].join("\n"),
  );
});

it("[CM8][RC4] a state folder that is gone stands right below the version", () => {
  expect(statusText(source, NOW, true)).not.toContain("⚠️");
  expect(
    statusText({ ...source, problem: "The state folder is gone." }, NOW, true)
      .split("\n")
      .slice(0, 2),
  ).toEqual(["**Herald 1.2.3**", "⚠️ The state folder is gone."]);
});
