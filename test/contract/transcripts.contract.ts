// What every transcript store must do: append-only, in order, chained by parentId, readable from the end, and archived
// without losing a line. transcripts.test.ts runs it over JSONL files.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { newId } from "../../src/core/ids.ts";
import type { Entry, NewEntry } from "../../src/stores/transcript-entry.ts";
import type { TranscriptRef, Transcripts } from "../../src/stores/transcripts.ts";

export interface TranscriptRig extends AsyncDisposable {
  readonly transcripts: Transcripts;
  /** Another opening of the same data, as after a restart. */
  reopen(): Promise<Transcripts>;
}

export const user = (text: string, id?: string): NewEntry => ({
  type: "message",
  role: "user",
  text,
  from: "Ann",
  ...(id === undefined ? {} : { id }),
});

export function transcriptContract(name: string, makeRig: () => Promise<TranscriptRig>): void {
  describe(`transcripts (${name})`, () => {
    let rig: TranscriptRig;
    let ref: TranscriptRef;
    beforeEach(async () => {
      rig = await makeRig();
      ref = { agentId: "main", sessionId: newId() };
      await rig.transcripts.create(ref, { key: "agent:main:web:dm:main", parent: null });
    });
    afterEach(() => rig[Symbol.asyncDispose]());
    const texts = async (transcripts: Transcripts, count = 1_000): Promise<unknown[]> =>
      (await transcripts.tail(ref, count)).map((entry) => (entry.type === "message" ? entry.text : entry.type));

    it("[SE2] entries come back in order, each with id, parentId and time, also after a restart", async () => {
      const first = await rig.transcripts.append(ref, [user("one", "in:1"), user("two")]);
      const second = await rig.transcripts.append(ref, [user("three")]);
      const all = await (await rig.reopen()).tail(ref, 10);
      expect(all).toEqual([...first, ...second]);
      expect(all.map((entry) => entry.parentId)).toEqual([null, "in:1", all[1]?.id]);
      expect(all.every((entry) => !Number.isNaN(Date.parse(entry.timestamp)))).toBe(true);
      const [next] = await rig.transcripts.append(ref, [user("four")]);
      expect(next?.parentId).toBe(all[2]?.id);
    });

    it("[WB3] what was set aside is in no window and no summary of it counts; a line written twice does no harm", async () => {
      const answer = (text: string): NewEntry => ({ type: "message", role: "assistant", text, model: "a/b", calls: 0 });
      const [kept] = await rig.transcripts.append(ref, [user("kept", "in:1"), answer("kept answer")]);
      await rig.transcripts.append(ref, [{ type: "compaction", summary: "true", keptFrom: kept?.id ?? null, carries: true }]);
      await rig.transcripts.append(ref, [user("unwanted", "in:2"), answer("unwanted answer")]);
      await rig.transcripts.append(ref, [{ type: "compaction", summary: "unwanted", keptFrom: null, carries: true }]);
      await rig.transcripts.append(ref, [{ type: "rewound", from: "in:2" }]);
      await rig.transcripts.append(ref, [{ type: "rewound", from: "in:2" }, user("wanted", "in:3"), answer("wanted answer")]);
      for (const open of [async () => rig.transcripts, () => rig.reopen()]) {
        const transcripts = await open();
        const window = await transcripts.window(ref, 1_000, () => 1);
        expect(window.map((entry) => ("text" in entry ? entry.text : entry.type))).toEqual([
          ...["kept", "kept answer", "compaction", "wanted", "wanted answer"],
        ]);
        expect(await transcripts.lastCompaction(ref)).toMatchObject({ summary: "true" });
        // It weighs nothing: a small window reaches behind it.
        expect((await transcripts.window(ref, 2, () => 1)).map((entry) => entry.type)).toEqual(["compaction", "message", "message"]);
        expect(await transcripts.tail(ref, 100)).toHaveLength(10);
      }
    });

    it("[SE2] every kind of entry comes back as it was", async () => {
      const entries: NewEntry[] = [
        user('hi\n\u2028 "quoted" 👋🏽 \\u0000'),
        {
          type: "message",
          role: "assistant",
          text: "",
          model: "a/b",
          calls: 1,
          usage: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 },
        },
        { type: "tool_call", callId: "c1", name: "read", args: { path: "x", deep: [{ a: null }] } },
        { type: "tool_result", callId: "c1", name: "read", text: "line\nline", isError: false },
        { type: "note", text: "a child ended", about: "run:1" },
        { type: "compaction", summary: "earlier", keptFrom: null },
        { type: "message", role: "assistant", text: "cut", model: "a/b", calls: 0, partial: true, phase: "announce" },
      ];
      await rig.transcripts.append(ref, entries);
      expect(await (await rig.reopen()).tail(ref, 10)).toMatchObject(entries);
    });

    it("[SE4] tail gives the last N, oldest first; more than there are gives all", async () => {
      for (let n = 0; n < 20; n++) await rig.transcripts.append(ref, [user(String(n))]);
      expect(await texts(rig.transcripts, 3)).toEqual(["17", "18", "19"]);
      expect(await texts(rig.transcripts)).toHaveLength(20);
      expect(await texts(rig.transcripts, 0)).toEqual([]);
    });

    it("[SE6] window gives the newest that fit, at least one, and stops at what the last compaction kept", async () => {
      const kept = (
        await rig.transcripts.append(
          ref,
          ["old", "older", "kept 1", "kept 2"].map((text) => user(text)),
        )
      )[2];
      const weigh = (entry: Entry): number => (entry.type === "message" ? entry.text.length : 0);
      const window = async (chars: number): Promise<unknown[]> =>
        (await rig.transcripts.window(ref, chars, weigh)).map((entry) => (entry.type === "message" ? entry.text : entry.type));
      expect(await window(1)).toEqual(["kept 2"]);
      expect(await window(6)).toEqual(["kept 1", "kept 2"]);
      expect(await window(1_000_000)).toEqual(["old", "older", "kept 1", "kept 2"]);
      await rig.transcripts.append(ref, [{ type: "compaction", summary: "s", keptFrom: kept?.id ?? null }, user("new")]);
      expect(await window(1_000_000)).toEqual(["kept 1", "kept 2", "compaction", "new"]);
      await rig.transcripts.append(ref, [{ type: "compaction", summary: "s", keptFrom: null }, user("newer")]);
      expect(await window(1_000_000)).toEqual(["compaction", "newer"]);
    });

    it("[SE7] the last compaction is found, also when more was written behind it than fits", async () => {
      expect(await rig.transcripts.lastCompaction(ref)).toBeNull();
      await rig.transcripts.append(ref, [user("old"), { type: "compaction", summary: "first", keptFrom: null }]);
      await rig.transcripts.append(ref, [user("between"), { type: "compaction", summary: "second", keptFrom: null }]);
      await rig.transcripts.append(
        ref,
        Array.from({ length: 50 }, (_, n) => user(`new ${n}`)),
      );
      expect((await rig.transcripts.window(ref, 4, () => 1)).map((entry) => entry.type)).not.toContain("compaction");
      expect(await rig.transcripts.lastCompaction(ref)).toMatchObject({ type: "compaction", summary: "second" });
    });

    it("[SE7] a stretch of it is read from its beginning, in order, whatever a page begins or ends with", async () => {
      const texts = Array.from({ length: 300 }, (_, n) => `${n} ${"ä".repeat(n * 3)}`);
      await rig.transcripts.append(
        ref,
        texts.map((text) => user(text)),
      );
      const { entries } = await rig.transcripts.page(ref, { before: null, limit: 1_000, fits: () => true });
      expect(entries).toHaveLength(300);
      const read = async (from: number, to: number): Promise<unknown[]> =>
        (
          await Array.fromAsync(
            rig.transcripts.between(ref, entries[from]?.position ?? 0, entries[to]?.position ?? Number.MAX_SAFE_INTEGER),
          )
        ).map((entry) => entry.type === "message" && entry.text);
      expect(await read(0, 300)).toEqual(texts);
      expect(await read(17, 250)).toEqual(texts.slice(17, 250));
      expect(await read(40, 40)).toEqual([]);
    });

    it("[SE2] making the same transcript twice is refused and changes nothing", async () => {
      await rig.transcripts.append(ref, [user("one")]);
      await expect(() => rig.transcripts.create(ref, { key: "agent:main:web:dm:main", parent: null })).rejects.toThrow();
      expect(await texts(await rig.reopen())).toEqual(["one"]);
    });

    it("[RC4] appending to one that is not there fails and makes nothing", async () => {
      const missing = { agentId: "main", sessionId: newId() };
      await expect(() => rig.transcripts.append(missing, [user("x")])).rejects.toThrow();
      await expect(() => rig.transcripts.tail(missing, 1)).rejects.toThrow();
    });

    it("[SE1] ids that are no ids are refused, never used as a path", async () => {
      for (const bad of [
        { agentId: "../main", sessionId: ref.sessionId },
        { agentId: "Main", sessionId: ref.sessionId },
        { agentId: "main", sessionId: "../../etc/passwd" },
        { agentId: "main", sessionId: "" },
      ]) {
        await expect(() => rig.transcripts.create(bad, { key: "k", parent: null })).rejects.toThrow(/not an? (agent|session) id/);
        await expect(() => rig.transcripts.tail(bad, 1)).rejects.toThrow(/not an? (agent|session) id/);
      }
    });

    it("[AR2] archiving renames, twice is harmless, reading goes on under the new name, restoring brings it back", async () => {
      await rig.transcripts.append(ref, [user("one")]);
      const archiveName = `${ref.sessionId}.jsonl.deleted.2026-01-01T00-00-00.000Z`;
      expect([await rig.transcripts.archive(ref, archiveName), await rig.transcripts.archive(ref, archiveName)]).toEqual([true, true]);
      const archived = { ...ref, archiveName };
      expect(rig.transcripts.path(archived).endsWith(archiveName)).toBe(true);
      expect(await rig.transcripts.tail(archived, 5)).toHaveLength(1);
      await expect(() => rig.transcripts.append(ref, [user("x")])).rejects.toThrow();
      await rig.transcripts.restore(archived);
      await rig.transcripts.append(ref, [user("two")]);
      expect(await texts(rig.transcripts)).toEqual(["one", "two"]);
      expect(await rig.transcripts.archive({ agentId: "main", sessionId: newId() }, "x.deleted")).toBe(false);
    });

    it("[AR5] those of an agent archived before a time are listed and removed by name, and only those", async () => {
      const archive = async (agentId: string, stamp: string) => {
        const one = { agentId, sessionId: newId() };
        const name = `${one.sessionId}.jsonl.deleted.${stamp}`;
        await rig.transcripts.create(one, { key: `agent:${agentId}:web:dm:main`, parent: null, entries: [user(stamp)] });
        await rig.transcripts.archive(one, name);
        return { ...one, archiveName: name };
      };
      const old = await archive("main", "2026-01-01T00-00-00.000Z");
      const older = await archive("main", "2025-12-31T23-59-59.999Z");
      const young = await archive("main", "2026-01-01T00-00-00.001Z");
      const foreign = await archive("scout", "2025-01-01T00-00-00.000Z");
      const listed = (agentId: string, before: string) => rig.transcripts.listArchived(agentId, before);
      expect((await listed("main", "2026-01-01T00-00-00.001Z")).toSorted((a, b) => (a.name < b.name ? -1 : 1))).toEqual(
        [old, older].map(({ sessionId, archiveName }) => ({ sessionId, name: archiveName })).toSorted((a, b) => (a.name < b.name ? -1 : 1)),
      );
      expect(await listed("nobody", "9")).toEqual([]);
      await rig.transcripts.remove("main", old.archiveName);
      await rig.transcripts.remove("main", old.archiveName);
      expect(await listed("main", "2026-01-01T00-00-00.001Z")).toEqual([{ sessionId: older.sessionId, name: older.archiveName }]);
      // Of another agent, or at work: nothing to be removed.
      await rig.transcripts.remove("main", foreign.archiveName);
      await rig.transcripts.remove("main", `${ref.sessionId}.jsonl`).catch(() => undefined);
      await rig.transcripts.append(ref, [user("one")]);
      for (const one of [older, young, foreign, ref]) expect(await rig.transcripts.tail(one, 5)).toHaveLength(1);
      await expect(() => rig.transcripts.listArchived("../main", "9")).rejects.toThrow("is not an agent id");
    });

    it("[SE2] many transcripts at once keep their entries apart", async () => {
      const refs = Array.from({ length: 100 }, () => ({ agentId: "main", sessionId: newId() }));
      for (const one of refs) await rig.transcripts.create(one, { key: "agent:main:web:dm:main", parent: null });
      for (let round = 0; round < 2; round++)
        for (const one of refs) await rig.transcripts.append(one, [user(`${one.sessionId} ${round}`)]);
      for (const one of refs) {
        const found = await rig.transcripts.tail(one, 5);
        expect(found.map((entry) => entry.type === "message" && entry.text)).toEqual([`${one.sessionId} 0`, `${one.sessionId} 1`]);
        expect(found[1]?.parentId).toBe(found[0]?.id);
      }
    });
  });
}
