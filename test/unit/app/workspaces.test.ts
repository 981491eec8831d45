// The first workspace: what is put there, and where nothing is.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { makeWorkspace } from "../../../src/app/workspaces.ts";
import { makeAgent } from "../../support/delegation.ts";

let stateDir: string;
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), "herald-workspaces-"));
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));
const make = (workspace: string): void => makeWorkspace(makeAgent("main", workspace), stateDir);

it("[RN2] the workspace Herald makes itself has files to begin with, for nobody else to read", () => {
  const workspace = join(stateDir, "workspace");
  make(workspace);
  expect(readdirSync(workspace).sort()).toEqual(["AGENTS.md", "README.md", "TOOLS.md"]);
  expect(readFileSync(join(workspace, "AGENTS.md"), "utf8")).toMatch(/^# /);
  for (const name of readdirSync(workspace)) expect(statSync(join(workspace, name)).mode & 0o777).toBe(0o600);
  expect(statSync(workspace).mode & 0o777).toBe(0o700);
  expect(readdirSync(stateDir)).toEqual(["workspace"]);
});

it("[RN2] nothing is put over what is there, nor back, nor into a folder somebody chose", () => {
  const workspace = join(stateDir, "workspace");
  make(workspace);
  writeFileSync(join(workspace, "AGENTS.md"), "mine");
  rmSync(join(workspace, "TOOLS.md"));
  make(workspace);
  expect(readFileSync(join(workspace, "AGENTS.md"), "utf8")).toBe("mine");
  expect(existsSync(join(workspace, "TOOLS.md"))).toBe(false);

  const empty = join(stateDir, "workspace-scout");
  mkdirSync(empty);
  make(empty);
  const chosen = join(stateDir, "elsewhere", "project");
  make(chosen);
  expect([readdirSync(empty), readdirSync(chosen)]).toEqual([[], []]);
});

it("[RN2] a start that was cut off while it filled the folder is made good by the next", () => {
  const workspace = join(stateDir, "workspace");
  mkdirSync(`${workspace}.new`);
  writeFileSync(join(`${workspace}.new`, "AGENTS.md"), "hal");
  make(workspace);
  expect(readdirSync(workspace)).toHaveLength(3);
  expect(readFileSync(join(workspace, "AGENTS.md"), "utf8")).toMatch(/^# /);
  expect(readdirSync(stateDir)).toEqual(["workspace"]);
});
