// What is refused without a word costs no row: the real gate, the real pairing store, the real inbox.
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Channel, Inbound, InboxSink } from "../../../src/core/message.ts";
import { createAccess } from "../../../src/gateway/access.ts";
import { createDoorstep } from "../../../src/gateway/doorstep.ts";
import { createStateFolder, type StateFolder } from "../../support/state-folder.ts";

let folder: StateFolder;
let inbox: InboxSink;
beforeEach(async () => {
  folder = await createStateFolder();
  const { clock, log, stores } = folder;
  const groups = { "-1": { requireMention: true, allowFrom: [] } };
  const access = createAccess({ pairing: stores.pairing, rules: () => ({ allowFrom: ["ann"], groups }) });
  inbox = createDoorstep({ access, clock, log })(channel, stores.inbox.sink("test", "a"));
});
afterEach(() => folder[Symbol.dispose]());

type Raw = Pick<Inbound, "text"> & { readonly from: string; readonly group?: string; readonly mentioned?: boolean };

const channel: Pick<Channel, "name" | "decode"> = {
  name: "test",
  decode(raw) {
    const { text, from, group, mentioned = false } = raw as Raw;
    if (text === "explode") throw new Error("boom");
    if (text === "a join") return null;
    const place = group === undefined ? { chat: from, kind: "dm" as const } : { chat: group, kind: "group" as const };
    return { kind: "message", address: { channel: "test", account: "a", ...place }, sender: { id: from }, text, mentioned };
  },
};
let updates = 0;
const put = (cursor: string | undefined, ...raws: Raw[]): Promise<void> =>
  inbox.put(
    raws.map((raw) => ({ externalId: String(++updates), raw })),
    cursor,
  );
const recorded = async (): Promise<unknown[]> => (await folder.stores.inbox.listNew(0, 1_000)).map((row) => (row.raw as Raw).text);

it("[SC1] only what may be answered is recorded; where the channel has got to is, whatever became of it", async () => {
  await put(
    "7",
    { text: "hello", from: "ann" },
    { text: "let me in", from: "eve" },
    { text: "chatter", from: "ann", group: "-1" },
    { text: "stop", from: "ann", group: "-1" },
    { text: "for you", from: "ann", group: "-1", mentioned: true },
    { text: "for you too", from: "eve", group: "-1", mentioned: true },
    { text: "elsewhere", from: "ann", group: "-2", mentioned: true },
    { text: "a join", from: "ann" },
    { text: "explode", from: "ann" },
  );
  expect(await recorded()).toEqual(["hello", "let me in", "for you", "explode"]);
  await put("8", { text: "chatter", from: "ann", group: "-1" });
  expect(await inbox.cursor()).toMatchObject({ value: "8" });
  await put(undefined, { text: "chatter", from: "ann", group: "-1" });
  expect(await recorded()).toHaveLength(4);
});

it("[SC1] ten thousand strangers leave three codes, no row and a few lines in the log, in no time", async () => {
  const { pairing, db } = folder.stores;
  const address = { channel: "test", account: "a", chat: "x", kind: "dm" } as const;
  for (const senderId of ["1", "2", "3"])
    await db.transaction([], (tx) => pairing.request(tx, { channel: "test", account: "a", senderId, senderName: "", address }));
  const before = process.cpuUsage();
  for (let batch = 0; batch < 100; batch++)
    await put(String(batch), ...Array.from({ length: 100 }, (_, n) => ({ text: "let me in", from: `s${batch * 100 + n}` })));
  const { user, system } = process.cpuUsage(before);
  // A row, a transaction and a line in the log for each took 6 s.
  expect((user + system) / 1_000).toBeLessThan(3_000);
  expect(await recorded()).toEqual([]);
  expect(await db.all("SELECT 1 FROM inbox")).toEqual([]);
  expect(await db.all("SELECT 1 FROM pairing_codes")).toHaveLength(3);
  expect(folder.lines.filter((line) => line.audit === "denied")).toHaveLength(20);
});

it("[SC1] what is not written down one by one is counted", async () => {
  const flood = (): Promise<void> => put(undefined, ...Array.from({ length: 50 }, () => ({ text: "hi", from: "eve", group: "-1" })));
  await flood();
  await folder.clock.advance(60_000);
  await flood();
  const lines = folder.lines.filter((line) => line.audit === "denied");
  expect(lines.map((line) => line.unlogged)).toEqual([...Array(20).fill(0), 30, ...Array(19).fill(0)]);
  expect(lines[0]).toMatchObject({ channel: "test", sender: "eve", chat: "-1", reason: "sender is not on an allow-list" });
});
