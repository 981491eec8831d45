// Telegram updates: any shape is nobody's message, or an Inbound with a right address, sender and text.
import fc from "fast-check";
import { expect, it } from "vitest";
import { decodeUpdate } from "../../src/channels/telegram/decode.ts";
import { isUpdate, type Receiver, takeUpdates } from "../../src/channels/telegram/receive.ts";
import { chatKey, parseKey } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Inbound } from "../../src/core/message.ts";
import { cases, checkPrototype, damagedTree } from "./cases.ts";

const me = { id: 900, username: "Herald_Bot" };
const ann = { id: 5, is_bot: false, first_name: "Ann", last_name: "Ö", username: "ann" };
const dm = { id: 5, type: "private" };
const forum = { id: -100123, type: "supergroup", is_forum: true };
const message = { message_id: 11, date: 1, from: ann, chat: dm, text: "hello @herald_bot" };
const file = { file_id: "f", file_name: "report.pdf", file_size: 12_345, duration: 61, title: "T" };

const UPDATES = [
  { update_id: 1, message },
  {
    update_id: 2,
    message: { ...message, chat: forum, is_topic_message: true, message_thread_id: 42, text: "/subagents@herald_bot stop 2" },
  },
  { update_id: 3, message: { ...message, chat: forum, text: "yes do", reply_to_message: { from: { ...ann, id: 6 }, text: "shall I?" } } },
  { update_id: 4, message: { ...message, text: undefined, caption: "look", document: file, media_group_id: "g", photo: [{}] } },
  { update_id: 5, message: { ...message, media_group_id: "g", voice: file, location: { latitude: 1, longitude: 2 } } },
  { update_id: 6, message: { ...message, forward_origin: {}, entities: [{ type: "text_mention", offset: 0, length: 1, user: me }] } },
  {
    update_id: 7,
    callback_query: {
      id: "q",
      from: ann,
      data: "/subagents stop 1",
      message: { chat: forum, date: 5, is_topic_message: true, message_thread_id: 7 },
    },
  },
  { update_id: 8, edited_message: message },
  { update_id: 9, message: { ...message, from: { ...ann, is_bot: true }, sender_chat: forum } },
];
const anUpdate = fc.constantFrom(...UPDATES);

/** Throws when the Inbound could lead anywhere but to its own chat and person. */
function checkInbound({
  address,
  sender,
  text,
  words,
  kind,
  mentioned,
  ref,
  quoted,
  onlyTo,
  repliesTo,
  isWordless,
  files,
  ...rest
}: Inbound): void {
  expect(Object.keys(rest)).toEqual([]);
  for (const file of files ?? []) {
    expect(Object.keys(file.source)).toEqual(["remote"]);
    // As it was sent; what is shown or stored of it is cleaned there (attachments/intake.ts).
    expect(file.name).not.toBe("");
    expect(file.size ?? 0).toBeGreaterThanOrEqual(0);
  }
  expect(Object.keys(address).every((key) => ["channel", "account", "chat", "thread", "kind"].includes(key))).toBe(true);
  expect(`${address.channel} ${address.account} ${address.chat} ${address.thread ?? "-"}`).toMatch(
    /^telegram 900 -?\d{1,16} (-|-?\d{1,16})$/,
  );
  expect(address.thread).not.toBe("1");
  expect(["dm", "group"]).toContain(address.kind);
  expect(sender.id).toMatch(/^-?\d{1,16}$/);
  expect(sender.name ?? "x").toMatch(/^\P{C}{1,64}$/u);
  expect(["message", "command", "button"]).toContain(kind);
  // A press that no button of ours makes is taken, to be answered, and says nothing.
  const isCommand = text.startsWith("/") || (kind === "button" && text === "");
  if (kind !== "message") expect(isCommand && mentioned && quoted === undefined && repliesTo === undefined).toBe(true);
  if (onlyTo !== undefined) expect([kind, Object.keys(onlyTo)]).toEqual(["button", ["press"]]);
  expect(repliesTo ?? "1").toMatch(/^-?\d+$/);
  if (isWordless !== undefined) expect(kind).toBe("message");
  // Nobody else's: only there a command is looked for.
  if (words !== undefined) expect(kind === "command" || (kind === "message" && text.includes(words))).toBe(true);
  if (address.kind === "dm") expect(mentioned).toBe(true);
  expect(typeof text === "string" && (kind === "button" || text.trim() !== "") && (ref === undefined || /^-?\d+$/.test(ref))).toBe(true);
}

/** Who really sent it, as far as the update says so. */
function senderIn(raw: unknown): unknown {
  const { update } = raw as { update?: { message?: { from?: { id?: unknown } }; callback_query?: { from?: { id?: unknown } } } };
  return (update?.callback_query ?? update?.message)?.from?.id;
}

it("[SC1][SE1] any update is nobody's message, or one with the person's own id and an address that makes a session key", () => {
  let decoded = 0;
  const stored = fc.tuple(anUpdate, anUpdate).map(([update, { message: other }]) => ({ me, update, album: [other] }));
  fc.assert(
    fc.property(damagedTree(stored), (raw) => {
      const inbound = decodeUpdate(raw, "900");
      checkPrototype();
      if (inbound === null) return;
      decoded++;
      checkInbound(inbound);
      expect(inbound.sender.id).toBe(String(senderIn(raw)));
      // A thread below 0 is no topic of Telegram's and makes no key we use.
      expect(parseKey(chatKey("main", inbound.address))).not.toBeNull();
    }),
    cases(),
  );
  expect(decoded).toBeGreaterThan(0);
});

it("[RC3] any batch is recorded once per update, albums together, and nothing of one batch shows in the next", async () => {
  const rows: { externalId: string; raw: unknown }[][] = [];
  const receiver = {
    inbox: { put: (updates: (typeof rows)[0]) => void rows.push([...updates]), cursor: () => null },
    log: silentLogger,
    signal: new AbortController().signal,
    forums: new Set<string>(),
    loose: new Set<Promise<unknown>>(),
    presses: { expect() {}, async end() {} },
  } as unknown as Receiver;
  await fc.assert(
    fc.asyncProperty(fc.array(damagedTree(anUpdate), { maxLength: 3 }), async (batch) => {
      const updates = batch.filter(isUpdate);
      await takeUpdates(receiver, me, updates);
      const [put = []] = rows.splice(0);
      const kept = put.flatMap(({ raw }) => {
        // An id that is recorded for its own sake: its picture stands in another row.
        if (raw === null) return [];
        const { update, album = [] } = raw as { update: unknown; album?: unknown[] };
        return [update, ...album];
      });
      expect(kept).toHaveLength(updates.length);
      for (const { externalId } of put) expect(updates.map((update) => String(update.update_id))).toContain(externalId);
    }),
    cases(4), // up to three updates each
  );
});

it("[SC5] a length that can't be compared is nobody's message", () => {
  const odd: unknown = JSON.parse('{"length":{"toString":1,"valueOf":1}}');
  expect(decodeUpdate({ me, update: { message: { ...message, text: odd } } }, "900")).toBeNull();
});
