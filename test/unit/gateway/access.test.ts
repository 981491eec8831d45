// The one gate, as a table: who may speak where (SC1, SC2), over the real pairing store.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Address } from "../../../src/core/address.ts";
import type { Inbound } from "../../../src/core/message.ts";
import { type Access, type ChannelRules, createAccess } from "../../../src/gateway/access.ts";
import { routeOf } from "../../../src/gateway/route.ts";
import { createStateFolder, type StateFolder } from "../../support/state-folder.ts";

let folder: StateFolder;
let access: Access;

const RULES: Record<string, ChannelRules> = {
  web: { open: true },
  telegram: {
    allowFrom: ["7"],
    groups: {
      "-100": { requireMention: true, allowFrom: ["8"] },
      "-200": { requireMention: false, allowFrom: [] },
    },
  },
  slack: { allowFrom: [], groups: {} },
};

const authorize = (one: Inbound) => folder.stores.db.transaction([], (tx) => access.authorize(tx, one));

beforeEach(async () => {
  folder = await createStateFolder();
  access = createAccess({
    pairing: folder.stores.pairing,
    rules: (channel) => (Object.hasOwn(RULES, channel) ? (RULES[channel] ?? null) : null),
  });
});
afterEach(() => folder[Symbol.dispose]());

const address = (more: Partial<Address> = {}): Address => ({ channel: "telegram", account: "bot", chat: "7", kind: "dm", ...more });
const inbound = (sender: string, where: Partial<Address> = {}, more: Partial<Inbound> = {}): Inbound => ({
  kind: "message",
  address: address(where),
  sender: { id: sender },
  text: "hi",
  mentioned: false,
  ...more,
});
const group = (chat: string): Partial<Address> => ({ chat, kind: "group" });

describe("the gate", () => {
  it.each([
    ["a listed person, directly", inbound("7"), true],
    ["somebody else, directly", inbound("9", { chat: "9" }), false],
    ["somebody whose name is a listed id", inbound("9", { chat: "9" }, { sender: { id: "9", name: "7" } }), false],
    ["an id that only begins like a listed one", inbound("77", { chat: "77" }), false],
    ["a channel-listed person in a listed group, addressed", inbound("7", group("-100"), { mentioned: true }), true],
    ["a group-listed person, addressed", inbound("8", group("-100"), { mentioned: true }), true],
    ["a group-listed person, not addressed", inbound("8", group("-100")), false],
    ["a group-listed person with a slash command", inbound("8", group("-100"), { kind: "command" }), true],
    ["a group-listed person with a button", inbound("8", group("-100"), { kind: "button" }), true],
    ["a group-listed person, directly", inbound("8", { chat: "8" }), false],
    ["a group-listed person in another listed group", inbound("8", group("-200")), false],
    ["a listed person where no mention is needed", inbound("7", group("-200")), true],
    ["a stranger in a listed group, addressed", inbound("9", group("-100"), { mentioned: true }), false],
    ["a stranger's slash command", inbound("9", group("-100"), { kind: "command", mentioned: true }), false],
    ["a stranger's button", inbound("9", group("-100"), { kind: "button", mentioned: true }), false],
    ["a listed person in a group that is not listed", inbound("7", group("-300"), { mentioned: true }), false],
    ["a group called like a property of every object", inbound("7", group("constructor"), { mentioned: true }), false],
    ["an empty allow-list: nobody", inbound("U1", { channel: "slack", chat: "D1" }), false],
    ["a channel nobody configured", inbound("7", { channel: "matrix" }), false],
    ["the page, which has checked its token", inbound("local", { channel: "web", chat: "main" }), true],
  ])("[SC2] %s: %s", async (_who, one, allow) => {
    expect((await authorize(one)).allow).toBe(allow);
  });

  it("[SC1] an unknown person gets a code once, directly only; nobody in a group does", async () => {
    expect(await authorize(inbound("9", { chat: "9" }))).toMatchObject({ allow: false, code: expect.stringMatching(/^[A-Z2-9]{8}$/) });
    expect(await authorize(inbound("9", { chat: "9" }))).toEqual({ allow: false, reason: "unknown person" });
    expect(await authorize(inbound("10", group("-100"), { mentioned: true }))).not.toHaveProperty("code");
  });

  it("[SC1] an approved person may speak from then on, also in listed groups, on that account only", async () => {
    const verdict = await authorize(inbound("9", { chat: "9" }));
    await folder.stores.pairing.approve("code" in verdict ? (verdict.code ?? "") : "");
    expect((await authorize(inbound("9", { chat: "9" }))).allow).toBe(true);
    expect((await authorize(inbound("9", group("-200")))).allow).toBe(true);
    expect((await authorize(inbound("9", { chat: "9", account: "bot2" }))).allow).toBe(false);
  });
});

describe("the route", () => {
  it("[SE1] different people, chats and topics never share a session", () => {
    const keys = [
      address({ chat: "1" }),
      address({ chat: "2" }),
      address({ chat: "1", kind: "group" }),
      address({ chat: "1", kind: "group", thread: "5" }),
      address({ chat: "1", kind: "channel", thread: "5" }),
      address({ channel: "web", chat: "1" }),
    ].map((one) => routeOf(one, "main")?.sessionKey);
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys).not.toContain(undefined);
  });

  it("[SE1] an address that makes no legal key is refused", () => {
    for (const chat of ["", "a b", "../x", "a:b"]) expect(routeOf(address({ chat }), "main")).toBeNull();
    expect(routeOf(address({ chat: "5" }), "main")).toEqual({ agentId: "main", sessionKey: "agent:main:telegram:dm:5" });
  });
});
