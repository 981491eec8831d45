// What /status says, as text.
import { expect, it } from "vitest";
import { type StatusSource, statusText } from "../../../src/app/status.ts";
import { configSchema } from "../../../src/config/schema.ts";

const source: StatusSource = {
  ...{ version: "1.2.3", model: "offline/rules", why: "no key", stateDir: "/state", config: configSchema.parse({}), channels: [] },
  sandbox: { available: false, reason: "not there", howTo: "install it" },
  ...{ lanes: [], mcp: [], openMessages: 0, problem: null },
};

it("[CM8][RC4] a state folder that is gone stands right below the version", () => {
  expect(statusText(source)).not.toContain("⚠️");
  expect(
    statusText({ ...source, problem: "The state folder is gone." })
      .split("\n")
      .slice(0, 2),
  ).toEqual(["**Herald 1.2.3**", "⚠️ The state folder is gone."]);
});
