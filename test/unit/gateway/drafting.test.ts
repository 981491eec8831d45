// turn.* → channel.drafts on a real inbox and outbox and a clock the test drives; the channel does as the test says.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Address, addressKey } from "../../../src/core/address.ts";
import { noFailpoints } from "../../../src/core/failpoints.ts";
import type { Channel, DraftRequest, DraftResult } from "../../../src/core/message.ts";
import { createDrafting, type Drafting } from "../../../src/gateway/drafting.ts";
import { createStateFolder, type StateFolder } from "../../support/state-folder.ts";

const HOME: Address = { channel: "test", account: "a", chat: "home", kind: "dm" };
const KEY = "agent:main:test:dm:home";

let folder: StateFolder;
let drafting: Drafting;
let shown: { markdown: string; at: number; request: DraftRequest }[];
let removed: string[];
let answer: (request: DraftRequest) => DraftResult | Promise<DraftResult>;
let stands: boolean;
let hasDrafts: boolean;
let waitMs: number;
let asked: number;
let startedAt: number;

function makeChannel(): Channel {
  return {
    ...{ name: "test", account: "a", start: async () => {}, stop: async () => {}, health: () => ({ state: "on" as const }) },
    decode: () => ({ kind: "message", address: HOME, sender: { id: "ada" }, text: "", mentioned: true }),
    render: () => [{}],
    send: async () => ({ status: "failed", reason: "no" }),
    ...(hasDrafts ? { drafts: makeDrafts() } : {}),
  };
}

const makeDrafts = (): NonNullable<Channel["drafts"]> => ({
  ...(stands ? { stands: true as const } : {}),
  fits: ({ thread }) => thread === undefined,
  async show(request) {
    shown.push({ markdown: request.markdown, at: folder.clock.now() - startedAt, request });
    return answer(request);
  },
  async remove({ ref }) {
    removed.push(ref);
    return true;
  },
});

beforeEach(async () => {
  folder = await createStateFolder();
  [shown, removed, stands, hasDrafts, waitMs, asked] = [[], [], false, true, 0, 0];
  answer = () => ({ status: "shown", againMs: 1_000, ...(stands ? { ref: "place" } : {}) });
  startedAt = folder.clock.now();
  const { inbox, outbox } = folder.stores;
  drafting = createDrafting({
    ...{ inbox, outbox, clock: folder.clock, bus: folder.bus, log: folder.log, failpoint: noFailpoints },
    pacer: { waitMs: () => waitMs },
    channel(name) {
      asked++;
      return name === "test" ? makeChannel() : null;
    },
  });
  drafting.start();
});
afterEach(async () => {
  await drafting.stop();
  await folder[Symbol.asyncDispose]();
});

/** A message that is being answered; its id. */
async function receive(): Promise<number> {
  const { inbox } = folder.stores;
  await inbox.sink("test", "a").put([{ externalId: `m${folder.clock.now()}${Math.random()}`, raw: { said: "hello" } }]);
  const id = await inbox.lastId();
  await inbox.route(id, KEY);
  return id;
}
const where = (id: number, address = HOME) => ({ sessionKey: KEY, address, turnId: `turn:${id}` });
const begin = (id: number, address?: Address): void => folder.bus.emit({ type: "turn.started", ...where(id, address) });
const write = (id: number, text: string): void => folder.bus.emit({ type: "turn.text", ...where(id), text });
const end = (id: number): void => folder.bus.emit({ type: "turn.ended", ...where(id), outcome: "done" });
const texts = (): string[] => shown.map(({ markdown }) => markdown);
const draftOf = (id: number): Promise<string | null> => folder.stores.db.transaction([], (tx) => folder.stores.inbox.draftOf(tx, id));

describe("what is shown", () => {
  it("[LV6][LV2] all that is written so far, a second after it began and then at the channel's pace, until the turn ends", async () => {
    const id = await receive();
    begin(id);
    write(id, "One");
    await folder.clock.advance(900);
    expect(shown).toEqual([]);
    write(id, "One, two");
    await folder.clock.advance(100);
    expect(texts()).toEqual(["One, two"]);
    answer = () => ({ status: "shown", againMs: 2_500 });
    for (const text of ["One, two, three", "One, two, three, four"]) write(id, text);
    await folder.clock.advance(1_000);
    expect(texts()).toEqual(["One, two", "One, two, three, four"]);
    write(id, "One, two, three, four, five");
    await folder.clock.advance(2_400);
    expect(texts()).toHaveLength(2);
    await folder.clock.advance(100);
    expect(shown[2]).toMatchObject({ at: 4_500, request: { address: HOME, id, key: `reply:${id}#0`, reader: null, ref: null } });
    write(id, "and the rest");
    end(id);
    await folder.clock.advance(60_000);
    expect(texts()).toHaveLength(3);
    expect(await draftOf(id), "nothing is recorded of what vanishes").toBeNull();
  });

  it("[LV6] nothing of it is anybody's business where a channel has no drafts, or not there", async () => {
    hasDrafts = false;
    const id = await receive();
    begin(id);
    expect(asked).toBe(1);
    for (let n = 0; n < 1_000; n++) write(id, "x".repeat(n));
    await folder.clock.advance(10_000);
    expect(asked, "a text is not even looked at").toBe(1);
    hasDrafts = true;
    begin(id, { ...HOME, thread: "7" });
    write(id, "text");
    await folder.clock.advance(10_000);
    expect(shown).toEqual([]);
  });

  it("[LV2] never before what waits to be said there; and told to wait, it waits for as long", async () => {
    const id = await receive();
    const { db, outbox } = folder.stores;
    await db.transaction([], (tx) => outbox.add(tx, { delivery: "other", address: HOME, parts: [{}] }));
    begin(id);
    write(id, "One");
    await folder.clock.advance(3_000);
    expect(shown).toEqual([]);
    const row = await outbox.head(addressKey(HOME));
    await db.transaction([], (tx) => outbox.markSent(tx, row?.id ?? 0, "ref"));
    waitMs = 5_000;
    await folder.clock.advance(3_000);
    expect(shown).toEqual([]);
    waitMs = 0;
    answer = () => ({ status: "retry", afterMs: 30_000, reason: "429" });
    await folder.clock.advance(1_000);
    expect(texts()).toEqual(["One"]);
    write(id, "One, two");
    await folder.clock.advance(29_000);
    expect(texts()).toEqual(["One"]);
    await folder.clock.advance(1_000);
    expect(texts()).toEqual(["One", "One, two"]);
  });

  it("[LV6] a channel that refuses, or says nothing, is left alone for the rest of the answer", async () => {
    answer = () => ({ status: "refused", reason: "no" });
    const id = await receive();
    begin(id);
    write(id, "One");
    await folder.clock.advance(1_000);
    write(id, "One, two");
    await folder.clock.advance(60_000);
    expect(texts()).toEqual(["One"]);
    const hung = Promise.withResolvers<DraftResult>();
    answer = () => hung.promise;
    const next = await receive();
    begin(next);
    write(next, "Hangs");
    await folder.clock.advance(1_000);
    write(next, "Hangs on");
    end(next);
    await folder.clock.advance(60_000);
    expect(texts()).toEqual(["One", "Hangs"]);
    hung.resolve({ status: "shown", againMs: 1_000 });
  });
});

describe("what stands", () => {
  beforeEach(() => {
    stands = true;
  });

  it("[LV6] LIVE-009 is on record before the platform hears of it, and where it stands after it", async () => {
    const records: (string | null)[] = [];
    const id = await receive();
    answer = async () => {
      records.push(await draftOf(id));
      return { status: "shown", ref: "place", againMs: 1_000 };
    };
    begin(id);
    write(id, "One");
    await folder.clock.advance(1_000);
    expect(records).toEqual([`begun:${folder.clock.now()}`]);
    expect(await draftOf(id)).toBe("place");
    write(id, "One, two");
    await folder.clock.advance(1_000);
    expect(shown.map(({ request }) => [request.reader, request.ref])).toEqual([
      ["ada", null],
      ["ada", "place"],
    ]);
  });

  it("[LV6] LIVE-009 is begun once: not by a second process, and not when the answer is whole", async () => {
    const { db, inbox } = folder.stores;
    const known = await receive();
    await inbox.beginDraft(known, KEY);
    const done = await receive();
    await db.transaction([], (tx) => inbox.finish(tx, done));
    for (const id of [known, done]) {
      begin(id);
      write(id, "One");
    }
    await folder.clock.advance(10_000);
    expect(shown).toEqual([]);
  });

  it("[LV6] LIVE-009 where nothing came of it nothing is recorded; where nobody knows, that is", async () => {
    const outcomes: [DraftResult, string | null][] = [
      [{ status: "retry", afterMs: 60_000, reason: "429" }, null],
      [{ status: "refused", reason: "no" }, null],
      [{ status: "unknown", reason: "lost" }, expect.stringMatching(/^begun:/)],
    ];
    for (const [result, expected] of outcomes) {
      const id = await receive();
      answer = () => result;
      begin(id);
      write(id, "One");
      await folder.clock.advance(1_000);
      expect(await draftOf(id), result.status).toEqual(expected);
      end(id);
    }
    expect(shown).toHaveLength(3);
  });

  it("[LV6] LIVE-009 a second one is not begun while an answer there has not found its place", async () => {
    const { db, outbox } = folder.stores;
    await db.transaction([], async (tx) => {
      await outbox.add(tx, { delivery: "reply:1", address: HOME, parts: [{}], draft: "place" });
      await outbox.stepAside(tx, "reply:1");
    });
    const id = await receive();
    begin(id);
    write(id, "One");
    await folder.clock.advance(5_000);
    expect(shown).toEqual([]);
    expect(await draftOf(id)).toBeNull();
  });

  it("[LV6][QA1] is taken away while the turn waits, and begun anew when it goes on", async () => {
    const id = await receive();
    begin(id);
    write(id, "Let me ask.");
    await folder.clock.advance(1_000);
    folder.bus.emit({ type: "turn.waits", ...where(id) });
    await folder.clock.advance(1_000);
    expect(removed).toEqual(["place"]);
    expect(await draftOf(id)).toBeNull();
    answer = () => ({ status: "shown", ref: "next", againMs: 1_000 });
    write(id, "So it is");
    await folder.clock.advance(1_000);
    expect(await draftOf(id)).toBe("next");
    expect(texts()).toEqual(["Let me ask.", "So it is"]);
  });

  it("[LV6] the answer's first part is given its place, the others none", async () => {
    const { db, outbox } = folder.stores;
    await db.transaction([], (tx) => outbox.add(tx, { delivery: "reply:9", address: HOME, parts: [{}, {}], draft: "place" }));
    const rows = await db.all<{ ref: string | null }>("SELECT ref FROM outbox WHERE delivery = 'reply:9' ORDER BY n");
    expect(rows.map(({ ref }) => ref)).toEqual(["place", null]);
  });
});
