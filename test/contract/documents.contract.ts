// What every store of documents must do: whole texts by session and name, their end without the rest, and changes that lose
// nothing when two want to make one at once; and a trace on top of it. documents.test.ts runs it over files and over rows.
import { setImmediate as nextTurn } from "node:timers/promises";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Trace, type TraceEntry } from "../../src/brief/trace.ts";
import { newId } from "../../src/core/ids.ts";
import type { OpenDocument, SessionDocuments, SessionRef } from "../../src/stores/session-documents.ts";
import { addToTrace, readTrace, readTraceEnd } from "../../src/subagents/documents/trace-file.ts";

export interface DocumentRig extends AsyncDisposable {
  readonly documents: SessionDocuments;
  /** What another process has open of the same; the same where there can be only one. */
  readonly other: SessionDocuments;
  /** What the session has, in any order. */
  names(ref: SessionRef): Promise<string[]>;
}

const ALL = Number.POSITIVE_INFINITY;
const newSession = (): SessionRef => ({ agentId: "main", sessionId: newId() });

export function documentContract(name: string, makeRig: () => Promise<DocumentRig>): void {
  let rig: DocumentRig;
  let ref: SessionRef;
  beforeEach(async () => {
    rig = await makeRig();
    ref = newSession();
  });
  afterEach(() => rig[Symbol.asyncDispose]());

  describe(`documents (${name})`, () => {
    texts(() => ({ ...rig, ref }));
    changes(() => ({ ...rig, ref }));
  });
  describe(`trace.md (${name})`, () => traces(() => ({ ...rig, ref })));
}

type Case = () => Pick<DocumentRig, "documents" | "other" | "names"> & { readonly ref: SessionRef };

function texts(given: Case): void {
  it("[BP1] a text comes back as it was put, each session's and each name's for itself", async () => {
    const { documents, other, ref } = given();
    expect(await documents.read(ref, "BRIEF.md")).toBeNull();
    expect(await documents.has(ref, "BRIEF.md")).toBe(false);
    const text = `# 👋🏽 \u2028 'quoted' ? $1 \\ \r\n${"x".repeat(300_000)}`;
    await documents.replace(ref, "BRIEF.md", "old");
    await documents.replace(ref, "BRIEF.md", text);
    await documents.replace(ref, "trace.md", "another");
    expect(await other.read(ref, "BRIEF.md")).toBe(text);
    expect(await other.has(ref, "BRIEF.md")).toBe(true);
    expect(await other.read(newSession(), "BRIEF.md")).toBeNull();
    expect((await given().names(ref)).sort()).toEqual(["BRIEF.md", "trace.md"]);
  });

  it("[BP1] of a long one the end is read, from a whole character on", async () => {
    const { documents, ref } = given();
    const words = fc
      .array(fc.constantFrom("a", "é", "€", "👋", "\n", "🧭"), { minLength: 1, maxLength: 40 })
      .map((parts) => parts.join(""));
    await fc.assert(
      fc.asyncProperty(words, fc.integer({ min: 1, max: 60 }), async (text, maxBytes) => {
        await documents.replace(ref, "trace.md", text);
        const end = (await documents.read(ref, "trace.md", maxBytes)) ?? "";
        const size = Buffer.byteLength(text);
        expect(text.endsWith(end)).toBe(true);
        expect(Buffer.byteLength(end)).toBeLessThanOrEqual(maxBytes);
        expect(Buffer.byteLength(end)).toBeGreaterThan(Math.min(size, maxBytes) - 4);
        const seen = await documents.change(ref, "trace.md", (document) => document.end(maxBytes));
        expect(seen).toEqual({ text: end, size });
      }),
      { numRuns: 60 },
    );
  });

  it("[BP1] an empty one counts as none", async () => {
    const { documents, ref } = given();
    await documents.replace(ref, "trace.md", "");
    expect(await documents.read(ref, "trace.md")).toBeNull();
    expect(await documents.has(ref, "trace.md")).toBe(false);
    expect(await documents.change(ref, "trace.md", (document) => document.end(ALL))).toBeNull();
  });

  it("[AR5] removing a session's takes all of them and nobody else's; again is harmless", async () => {
    const { documents, names, ref } = given();
    const neighbour = newSession();
    for (const one of [ref, neighbour]) for (const name of ["BRIEF.md", "trace.md"]) await documents.replace(one, name, "text");
    await documents.change(ref, "trace.md", (document) => document.rename("trace.2026.md"));
    await documents.removeAll(ref);
    await documents.removeAll(ref);
    expect(await names(ref)).toEqual([]);
    expect(await documents.has(ref, "BRIEF.md")).toBe(false);
    expect((await names(neighbour)).sort()).toEqual(["BRIEF.md", "trace.md"]);
  });
}

function changes(given: Case): void {
  it("[BP1] a change appends, replaces, renames and removes, and sees what it did", async () => {
    const { documents, names, ref } = given();
    const change = <T>(work: (document: OpenDocument) => Promise<T>): Promise<T> => documents.change(ref, "trace.md", work);
    expect(await change((document) => document.end(ALL))).toBeNull();
    await change((document) => document.append("one"));
    await change(async (document) => {
      await document.append(" zwö");
      expect(await document.end(ALL)).toEqual({ text: "one zwö", size: 8 });
    });
    expect(await documents.read(ref, "trace.md")).toBe("one zwö");
    await documents.replace(ref, "aside.md", "in its place");
    await change(async (document) => {
      await document.rename("aside.md");
      expect(await document.end(ALL)).toBeNull();
    });
    expect(await documents.read(ref, "aside.md")).toBe("one zwö");
    await change(async (document) => {
      await document.replace("anew");
      await document.rename("aside.md");
      await document.append("and on");
    });
    expect([await documents.read(ref, "trace.md"), await documents.read(ref, "aside.md")]).toEqual(["and on", "anew"]);
    await change(async (document) => {
      await document.remove();
      expect(await document.end(ALL)).toBeNull();
    });
    expect(await names(ref)).toEqual(["aside.md"]);
  });

  it("[BP1] what two read, add to and write at once is all there", async () => {
    const { documents, other, ref } = given();
    const words = Array.from({ length: 40 }, (_, n) => String(n));
    const add = (word: string, n: number): Promise<void> =>
      (n % 2 === 0 ? documents : other).change(ref, "trace.md", async (document) => {
        const before = (await document.end(ALL))?.text ?? "";
        await nextTurn();
        // Put aside now and then: whoever waits for the old one must find that there is none any more.
        if (n % 10 === 9) await document.rename(`trace.${n}.md`);
        await document.replace(n % 10 === 9 ? `${word}\n` : `${before}${word}\n`);
      });
    await Promise.all(words.map(add));
    const names = (await given().names(ref)).filter((one) => one.startsWith("trace."));
    const kept = await Promise.all(names.map((one) => documents.read(ref, one)));
    expect(
      kept
        .join("")
        .trim()
        .split("\n")
        .sort((a, b) => Number(a) - Number(b)),
    ).toEqual(words);
  });

  it("[BP1] a change that fails before it writes leaves all as it was and holds nobody up", async () => {
    const { documents, other, ref } = given();
    const fail = (): Promise<void> =>
      documents.change(ref, "trace.md", async (document) => {
        await document.end(ALL);
        throw new Error("no");
      });
    await expect(fail()).rejects.toThrow("no");
    expect(await other.read(ref, "trace.md")).toBeNull();
    await other.change(ref, "trace.md", (document) => document.append("one"));
    await expect(fail()).rejects.toThrow("no");
    expect(await other.read(ref, "trace.md")).toBe("one");
  });
}

const entry = (second: number, agent = "a"): TraceEntry => ({
  agent,
  action: `at ${second} ${"x".repeat(60)}`,
  briefId: "brief-abcdef",
  timestamp: new Date(1_700_000_000_000 + second * 1000).toISOString(),
});

const keyOf = (one: TraceEntry): string => `${one.timestamp} ${one.agent}`;

function merged(batches: readonly (readonly TraceEntry[])[]): readonly TraceEntry[] {
  const whole = Trace.create();
  for (const batch of batches) {
    const fresh = Trace.create();
    for (const one of batch) fresh.append(one);
    whole.merge(fresh);
  }
  return whole.getEntries();
}

function traces(given: Case): void {
  const entriesIn = async (documents: SessionDocuments, ref: SessionRef, name = "trace.md"): Promise<readonly TraceEntry[]> =>
    Trace.parse((await documents.read(ref, name)) ?? "").getEntries();

  const batches = fc.array(
    fc
      .array(fc.tuple(fc.nat(400), fc.constantFrom("a", "b")), { minLength: 1, maxLength: 60 })
      .map((batch) => batch.map(([second, agent]) => entry(second, agent))),
    { maxLength: 12 },
  );

  it("[BP1] is what merging everything would give, whatever comes in whatever order and how often", async () => {
    const { documents } = given();
    await fc.assert(
      fc.asyncProperty(batches, async (plan) => {
        const ref = newSession();
        for (const batch of plan) await addToTrace(documents, ref, batch);
        const [got, expected] = [await entriesIn(documents, ref), merged(plan)];
        expect(got.map((one) => one.timestamp)).toEqual(expected.map((one) => one.timestamp));
        expect(got.map(keyOf).toSorted()).toEqual(expected.map(keyOf).toSorted());
      }),
      { numRuns: 60 },
    );
  });

  it("[BP1] so it is when two processes add to it at once", async () => {
    const { documents, other } = given();
    await fc.assert(
      fc.asyncProperty(batches, async (plan) => {
        const ref = newSession();
        await Promise.all(plan.map((batch, n) => addToTrace(n % 2 === 0 ? documents : other, ref, batch)));
        const [got, expected] = [await entriesIn(documents, ref), merged(plan)];
        expect(got.map((one) => one.timestamp)).toEqual(expected.map((one) => one.timestamp));
        expect(got.map(keyOf).toSorted()).toEqual(expected.map(keyOf).toSorted());
      }),
      { numRuns: 30 },
    );
  });

  it("[BP1] begins with what its requester's tells, once, also when two begin it", async () => {
    const { documents, other, ref } = given();
    const before = async (): Promise<string> => Trace.create().append(entry(0, "above")).toString();
    const told = await Promise.all([addToTrace(documents, ref, [entry(1)], before), addToTrace(other, ref, [entry(2)], before)]);
    expect(told.filter((trace) => trace !== null)).toHaveLength(1);
    expect(await addToTrace(documents, ref, [entry(1)], before)).toBeNull();
    expect((await readTrace(other, ref)).getEntries()).toEqual([entry(0, "above"), entry(1), entry(2)]);
  });

  it.each([
    ["without its last line break", (text: string) => text.slice(0, -1)],
    ["in the middle of an id", (text: string) => text.slice(0, text.lastIndexOf("brief-") + 8)],
    ["in the middle of what was done", (text: string) => text.slice(0, text.lastIndexOf("Action") + 12)],
    ["in the middle of a new entry", (text: string) => `${text}- **Ag`],
  ])("[BP1] behind a trace that ends %s, as a full disk or an editor leaves it, no new entry is lost", async (_, cut) => {
    const { documents, ref } = given();
    const of = (second: number): TraceEntry => ({ ...entry(second), briefId: `brief-00000${second}` });
    await documents.replace(ref, "trace.md", cut(Trace.create().append(of(1)).append(of(2)).toString()));
    await addToTrace(documents, ref, [of(3), of(4)]);
    const got = await entriesIn(documents, ref);
    expect(got[0]).toEqual(of(1));
    expect(got.slice(-2)).toEqual([of(3), of(4)]);
    expect(got).toHaveLength(4);
  });

  it("[BP1] new entries are appended: the bytes before them stay as they are", async () => {
    const { documents, ref } = given();
    for (let n = 0; n < 200; n++) await addToTrace(documents, ref, [entry(n)]);
    const before = (await documents.read(ref, "trace.md")) ?? "";
    await addToTrace(documents, ref, [entry(200)]);
    const after = (await documents.read(ref, "trace.md")) ?? "";
    expect(after.startsWith(before)).toBe(true);
    expect(Trace.parse(after).length).toBe(201);
    expect(await readTraceEnd(documents, ref)).toMatch(/^- \*\*Agent\*\*/);
    expect(Buffer.byteLength(await readTraceEnd(documents, ref))).toBeLessThanOrEqual(8 * 1024);
  });

  it("[BP1] adding to a long one looks at its end and writes what is new, no more", async () => {
    const { documents, ref } = given();
    await addToTrace(
      documents,
      ref,
      Array.from({ length: 1_500 }, (_, n) => entry(n)),
    );
    const did: unknown[] = [];
    const watched: Pick<SessionDocuments, "change"> = {
      change: (of, name, work) => documents.change(of, name, (document) => work(watch(document, did))),
    };
    await addToTrace(watched, ref, [entry(2_000)]);
    await addToTrace(watched, ref, [entry(2_000)]);
    expect(did).toEqual([
      ["end", 8 * 1024],
      ["append", Trace.create().append(entry(2_000)).toString()],
      ["end", 8 * 1024],
    ]);
  });

  it("[BP1] an entry longer than that end costs none of those before it", async () => {
    const { documents, ref } = given();
    const long = { ...entry(2), action: "x".repeat(20_000) };
    for (const one of [entry(1), long, entry(3)]) await addToTrace(documents, ref, [one]);
    expect(await entriesIn(documents, ref)).toEqual([entry(1), long, entry(3)]);
  });

  it("[BP1] a long trace is put aside whole and a new one begun", async () => {
    const { documents, names, ref } = given();
    const many = Array.from({ length: 2_500 }, (_, n) => entry(n));
    await addToTrace(documents, ref, many);
    await addToTrace(documents, ref, [entry(3_000)]);
    await addToTrace(documents, ref, [entry(3_001)]);
    const [aside] = (await names(ref)).filter((name) => name !== "trace.md");
    expect(aside).toMatch(/^trace\.2023-.*\.md$/);
    expect(await entriesIn(documents, ref, aside)).toHaveLength(2_501);
    expect(await entriesIn(documents, ref)).toEqual([entry(3_001)]);
  });
}

const watch = (document: OpenDocument, did: unknown[]): OpenDocument =>
  new Proxy(document, {
    get: (target, key: keyof OpenDocument) => (argument: never) => {
      did.push([key, argument]);
      return target[key](argument);
    },
  });
