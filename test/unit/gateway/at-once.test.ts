// What is said on the page is posted in the transaction that says it, on real stores: the page's own table, the outbox, the run's record.
import { afterEach, beforeEach, expect, it } from "vitest";
import { splitMarkdown } from "../../../src/channels/split.ts";
import { createWebChannel, WEB } from "../../../src/channels/web/channel.ts";
import type { Address } from "../../../src/core/address.ts";
import type { AppEvent } from "../../../src/core/events.ts";
import { noFailpoints } from "../../../src/core/failpoints.ts";
import type { Channel } from "../../../src/core/message.ts";
import { createAtOnce } from "../../../src/gateway/at-once.ts";
import type { Tx } from "../../../src/stores/database.ts";
import type { NewMessage } from "../../../src/stores/outbox.ts";
import { createWebPosts } from "../../../src/stores/web-posts.ts";
import { createStateFolder, type StateFolder } from "../../support/state-folder.ts";

const HOME: Address = { ...WEB, chat: "main", kind: "dm" };
const ELSEWHERE: Address = { channel: "telegram", account: "1", chat: "7", kind: "dm" };

let folder: StateFolder;
let events: AppEvent[];
let recorded: string[];
let fails: boolean;

beforeEach(async () => {
  folder = await createStateFolder();
  const { stores, bus } = folder;
  events = [];
  recorded = [];
  fails = false;
  bus.on((event) => events.push(event));
  const web = createWebChannel({ posts: createWebPosts(stores, WEB), bus, split: splitMarkdown });
  const telegram: Channel = { ...web, name: "telegram", account: "1" };
  delete telegram.postIn;
  stores.onEnd?.(
    createAtOnce({
      outbox: stores.outbox,
      failpoint: noFailpoints,
      channel: (name) => (name === "web" ? web : telegram),
      async recordDelivery(_tx, row, state) {
        if (fails) throw new Error("not to be recorded");
        recorded.push(`${row.delivery} ${state}`);
      },
    }),
  );
});
afterEach(() => folder[Symbol.dispose]());

const add = (tx: Tx, delivery: string, texts: readonly string[], address = HOME, more: Partial<NewMessage> = {}): Promise<boolean> =>
  folder.stores.outbox.add(tx, { delivery, address, parts: texts.map((text) => ({ text })), ...more });
const within = <T>(work: (tx: Tx) => Promise<T>): Promise<T> => folder.stores.db.transaction([], work);
const shown = async (): Promise<string[]> => (await folder.stores.webMessages.list("main", { limit: 20 })).map(({ text }) => text);
const open = (): Promise<number> => folder.stores.outbox.countAllOpen();
const types = (): string[] => events.map(({ type }) => type);

it("[DL1][DL5] it is there when its transaction is, with all its parts in order; nobody has to be told that something waits", async () => {
  await within((tx) => add(tx, "reply:1", ["one", "two", "three"]));
  expect([await shown(), await open(), recorded]).toEqual([["one", "two", "three"], 0, ["reply:1 delivered"]]);
  expect(types()).toEqual(["web.posted", "web.posted", "web.posted", "outbox.settled"]);
  // Saying it again changes nothing.
  expect(await within((tx) => add(tx, "reply:1", ["other"]))).toBe(false);
  expect(await shown()).toEqual(["one", "two", "three"]);
});

it("[DL1] what takes it back takes back what was posted, and nothing is told", async () => {
  const broken = within(async (tx) => {
    await add(tx, "reply:1", ["one"]);
    throw new Error("the turn could not be settled");
  });
  await expect(broken).rejects.toThrow("could not be settled");
  fails = true;
  await expect(within((tx) => add(tx, "reply:2", ["two"]))).rejects.toThrow("not to be recorded");
  expect([await shown(), await open(), events]).toEqual([[], 0, []]);
});

it("[DL5][DL6] behind something that waits there it waits as well, but for the answer to a command", async () => {
  folder.stores.onEnd?.(async (_tx, said) => said);
  await within((tx) => add(tx, "announce:1", ["said before"]));
  await folder.reopen();
  const { stores, bus } = folder;
  const web = createWebChannel({ posts: createWebPosts(stores, WEB), bus, split: splitMarkdown });
  const deps = { outbox: stores.outbox, failpoint: noFailpoints, channel: () => web, recordDelivery: async () => {} };
  stores.onEnd?.(createAtOnce(deps));
  const heard: AppEvent[] = [];
  bus.on((event) => heard.push(event));
  await within((tx) => add(tx, "reply:1", ["an answer"]));
  expect([await shown(), await open(), heard.map(({ type }) => type)]).toEqual([[], 2, ["outbox.added"]]);
  await within((tx) => add(tx, "command:1", ["to a command"], HOME, { isAnswer: true }));
  expect([await shown(), await open()]).toEqual([["to a command"], 2]);
});

it("[DL1] several things said in one transaction are posted in their order; what goes elsewhere, and what was taken back in it, is not", async () => {
  await within(async (tx) => {
    await add(tx, "announce:1", ["first"]);
    await add(tx, "telegram:1", ["elsewhere"], ELSEWHERE);
    await add(tx, "announce:2", ["second"]);
    await add(tx, "announce:3", ["taken back"]);
    await folder.stores.outbox.withdraw(tx, "announce:3");
  });
  expect([await shown(), await open(), recorded]).toEqual([["first", "second"], 1, ["announce:1 delivered", "announce:2 delivered"]]);
  expect(events.filter(({ type }) => type === "outbox.added").map((event) => "addressKey" in event && event.addressKey)).toEqual([
    "telegram/1/7/-",
    "web/local/main/-",
  ]);
});
