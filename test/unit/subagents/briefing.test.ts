// Briefs by requester: rows, BRIEF.md, and what of the memory a child may read.

import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Tx } from "../../../src/stores/database.ts";
import { type BriefParams, parseBriefParams } from "../../../src/subagents/documents/brief-params.ts";
import { createDelegation, type Delegation } from "../../support/delegation.ts";
import { waitFor } from "../../support/wait.ts";

const CHAT = "agent:main:web:dm:main";
const SCOUT_CHAT = "agent:scout:web:dm:main";
function brief(fields: Partial<BriefParams> = {}): BriefParams {
  const parsed = parseBriefParams({ mission: "Mind the docs.", ...fields });
  if (!parsed.ok) throw new Error(parsed.error);
  return parsed.brief;
}
const write = <T>({ folder }: Delegation, work: (tx: Tx) => Promise<T>): Promise<T> => folder.stores.db.transaction([], work);

const pin = (key: string) => ({ tier: "pins" as const, key, reason: "needed" });

describe("briefing", () => {
  it("[BF2] writes BRIEF.md once the row is durable, 0600 in a folder of its own, and nothing when the transaction fails", async () => {
    await using scene = await createDelegation();
    const run = await scene.spawn("one");
    const file = join(scene.folderOf(run), "BRIEF.md");
    const { db } = scene.folder.stores;
    await expect(() =>
      db.transaction([], async (tx) => {
        await scene.briefing.apply(tx, run, CHAT, brief());
        throw new Error("no");
      }),
    ).rejects.toThrow("no");
    expect(existsSync(file)).toBe(false);
    expect(await scene.briefing.list(run)).toEqual([]);
    await db.transaction([], async (tx) => {
      await scene.briefing.apply(tx, run, CHAT, brief());
      expect(existsSync(file)).toBe(false);
    });
    await waitFor("BRIEF.md", () => existsSync(file));
    expect(readFileSync(file, "utf8")).toMatch(/^# Brief\n[\s\S]*> Mind the docs\./);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(scene.folderOf(run)).mode & 0o777).toBe(0o700);
    expect(readdirSync(scene.folderOf(run))).toEqual(["BRIEF.md"]);
  });

  it("[BF3] keeps two requesters apart, replaces one as a whole, and revokes one or all", async () => {
    await using scene = await createDelegation();
    const run = await scene.spawn("one");
    const file = join(scene.folderOf(run), "BRIEF.md");
    await write(scene, (tx) => scene.briefing.apply(tx, run, CHAT, brief({ constraints: ["first"] })));
    await write(scene, (tx) => scene.briefing.apply(tx, run, SCOUT_CHAT, brief({ mission: "Scout it." })));
    await write(scene, (tx) => scene.briefing.apply(tx, run, CHAT, brief({ mission: "Anew." })));
    expect((await scene.briefing.list(run)).map((one) => [one.requesterKey, one.brief.mission])).toEqual([
      [CHAT, "Anew."],
      [SCOUT_CHAT, "Scout it."],
    ]);
    await waitFor("what was said last", () => readFileSync(file, "utf8").includes("Anew."));
    expect(readFileSync(file, "utf8")).not.toContain("first");
    expect(await write(scene, (tx) => scene.briefing.revoke(tx, run, CHAT, CHAT))).toBe(1);
    await waitFor("it to be taken back", () => !readFileSync(file, "utf8").includes("Anew."));
    expect(await write(scene, (tx) => scene.briefing.revoke(tx, run, CHAT, CHAT))).toBe(0);
    expect(await write(scene, (tx) => scene.briefing.revoke(tx, run, null, CHAT))).toBe(1);
    await waitFor("all of it to be gone", () => !existsSync(file));
    expect(await scene.briefing.read(run)).toEqual({ section: "", memory: "" });
  });

  it("[BF4][ME1] gives exactly the references, from the memory of whoever gave them", async () => {
    await using scene = await createDelegation();
    for (const agent of ["main", "scout"]) {
      scene.put(agent, "memory/AGENT.md", `${agent} facts`);
      scene.put(agent, "memory/pins/api.md", `api of ${agent}`);
      scene.put(agent, "memory/pins/other.md", "not shared");
    }
    writeFileSync(join(scene.folder.stateDir, "CREW.md"), "for all of us");
    const run = await scene.spawn("one");
    const shared = [pin("api"), pin("gone"), { tier: "AGENT" as const, reason: "r" }, { tier: "CREW" as const, reason: "r" }];
    await write(scene, (tx) => scene.briefing.apply(tx, run, CHAT, brief({ sharedMemory: shared })));
    await write(scene, (tx) => scene.briefing.apply(tx, run, SCOUT_CHAT, brief({ sharedMemory: shared })));
    const { memory } = await scene.briefing.read(run);
    expect(memory).toContain("api of main");
    expect(memory).toContain("api of scout");
    expect(memory).toContain("There is nothing in pins/gone.md");
    expect(memory.match(/for all of us/g)).toHaveLength(1);
    expect(memory).toContain("scout facts");
    // What every child inherits stands in its block anyway.
    expect(memory).not.toContain("main facts");
    expect(memory).not.toContain("not shared");
  });

  it("[BF4] a sub-agent passes on what it can read itself and nothing else", async () => {
    await using scene = await createDelegation();
    const run = await scene.spawn("one");
    const wish = (...sharedMemory: BriefParams["sharedMemory"]) => scene.briefing.check(run.childKey, brief({ sharedMemory }));
    expect(await scene.briefing.check(CHAT, brief({ sharedMemory: [pin("api")] }))).toBeNull();
    expect(await wish({ tier: "AGENT", reason: "r" })).toBeNull();
    expect(await wish(pin("api"), { tier: "CREW", reason: "r" })).toBe(
      "Brief refused: brief.sharedMemory: pins/api, CREW was not shared with you, so you can't pass it on.",
    );
    await write(scene, (tx) => scene.briefing.apply(tx, run, CHAT, brief({ sharedMemory: [pin("api")] })));
    expect(await wish(pin("api"))).toBeNull();
    expect(await wish(pin("other"))).toContain("pins/other");
    expect(await wish({ tier: "pins", reason: "all of them" })).toContain("pins was not shared");
    await write(scene, (tx) => scene.briefing.apply(tx, run, CHAT, brief({ sharedMemory: [{ tier: "pins", reason: "all" }] })));
    expect(await wish(pin("other"))).toBeNull();
  });

  it("[BF2] a folder that can't be written is logged; the child still has its brief", async () => {
    await using scene = await createDelegation();
    const run = await scene.spawn("one");
    writeFileSync(scene.folderOf(run), "in the way");
    await write(scene, (tx) => scene.briefing.apply(tx, run, CHAT, brief()));
    expect((await scene.briefing.read(run)).section).toContain("Mind the docs.");
    const words = "BRIEF.md could not be written; the child reads the brief all the same";
    await waitFor("the log", () => scene.folder.lines.some((line) => line.msg === words));
  });

  it("[SC4] secrets stand in BRIEF.md by name only, and a damaged row is left out with an error", async () => {
    await using scene = await createDelegation();
    scene.folder.secrets.add("the token", "tok-0123456789abcdef");
    const run = await scene.spawn("one");
    await write(scene, (tx) => scene.briefing.apply(tx, run, CHAT, brief({ mission: "use tok-0123456789abcdef" })));
    const file = join(scene.folderOf(run), "BRIEF.md");
    await waitFor("BRIEF.md", () => existsSync(file));
    expect(readFileSync(file, "utf8")).not.toContain("tok-0123456789abcdef");
    await scene.folder.stores.db.transaction([], (tx) =>
      scene.folder.stores.briefs.put(tx, run.sessionId, {
        ...{ requesterKey: SCOUT_CHAT, by: SCOUT_CHAT, replaces: null },
        brief: { mission: "x".repeat(501) },
      }),
    );
    expect((await scene.briefing.list(run)).map((one) => one.requesterKey)).toEqual([CHAT]);
    expect(scene.folder.lines.some((line) => line.msg === "a stored brief can't be read")).toBe(true);
  });

  it("[BF2] something else in the place of BRIEF.md is left alone and logged", async () => {
    await using scene = await createDelegation();
    const run = await scene.spawn("one");
    mkdirSync(join(scene.folderOf(run), "BRIEF.md"), { recursive: true });
    await scene.briefing.write(run);
    await write(scene, (tx) => scene.briefing.apply(tx, run, CHAT, brief()));
    expect(statSync(join(scene.folderOf(run), "BRIEF.md")).isDirectory()).toBe(true);
    await waitFor("the log", () => scene.folder.lines.some((line) => line.level === "error"));
  });
});
