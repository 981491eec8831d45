// Documents as files: their modes, and that nothing is written through what somebody put in a document's place.
import { linkSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { newId } from "../../../src/core/ids.ts";
import type { SessionDocuments, SessionRef } from "../../../src/stores/session-documents.ts";
import { createStateFolder, type StateFolder } from "../../support/state-folder.ts";

let state: StateFolder;
let documents: SessionDocuments;
let ref: SessionRef;
let folder: string;

beforeEach(async () => {
  state = await createStateFolder();
  documents = state.stores.sessionDocuments;
  ref = { agentId: "main", sessionId: newId() };
  folder = join(state.stateDir, "agents", ref.agentId, "sessions", ref.sessionId);
});

afterEach(() => state[Symbol.dispose]());

it("[BF2] are 0600 in a folder of 0700, however they were made, and leave nothing beside them", async () => {
  await documents.change(ref, "trace.md", (document) => document.append("one"));
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  await documents.replace(ref, "BRIEF.md", "two");
  for (const name of ["trace.md", "BRIEF.md"]) expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);
  mkdirSync(join(folder, "taken.md"));
  await expect(documents.replace(ref, "taken.md", "three")).rejects.toThrow("EISDIR");
  expect(readdirSync(folder).sort()).toEqual(["BRIEF.md", "taken.md", "trace.md"]);
});

it.each([
  ["a link", symlinkSync],
  ["a second name", linkSync],
])("[BP3] nothing is read or appended through %s, and replacing puts a file in its place", async (_what, put) => {
  const secret = join(state.stateDir, "secret");
  writeFileSync(secret, "TOP SECRET");
  mkdirSync(folder, { recursive: true });
  put(secret, join(folder, "trace.md"));
  await expect(documents.read(ref, "trace.md")).rejects.toThrow();
  await expect(documents.change(ref, "trace.md", (document) => document.end(9))).rejects.toThrow();
  await expect(documents.change(ref, "trace.md", (document) => document.append("one"))).rejects.toThrow();
  await documents.replace(ref, "trace.md", "two");
  expect(await documents.read(ref, "trace.md")).toBe("two");
  expect(readFileSync(secret, "utf8")).toBe("TOP SECRET");
});

it("[SE1] ids that are no ids are refused, never used as a path", async () => {
  await documents.replace(ref, "BRIEF.md", "one");
  for (const bad of [
    { agentId: "../main", sessionId: ref.sessionId },
    { agentId: "main", sessionId: "" },
    { agentId: "main", sessionId: `../sessions/${ref.sessionId}` },
  ]) {
    await expect(documents.removeAll(bad)).rejects.toThrow(/not an? (agent|session) id/);
    await expect(documents.change(bad, "BRIEF.md", (document) => document.remove())).rejects.toThrow(/not an? (agent|session) id/);
  }
  expect(await documents.read(ref, "BRIEF.md")).toBe("one");
});
