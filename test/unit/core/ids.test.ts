// Session keys and ids: built from addresses, read back exactly, and refused when malformed, never repaired.
import { expect, it } from "vitest";
import { type Address, addressKey } from "../../../src/core/address.ts";
import { agentIdOf, chatKey, isAgentId, isUuid, newId, parseKey, peerNameOf, shortId, subagentKey } from "../../../src/core/ids.ts";

const at = (more: Partial<Address>): Address => ({ channel: "telegram", account: "bot", chat: "123", kind: "dm", ...more });

it.each([
  [at({}), "agent:main:telegram:dm:123"],
  [at({ kind: "group", chat: "-1001234567890" }), "agent:main:telegram:group:-1001234567890"],
  [at({ kind: "group", chat: "-100123", thread: "42" }), "agent:main:telegram:group:-100123:topic:42"],
  [at({ channel: "slack", kind: "channel", chat: "C0GENERAL" }), "agent:main:slack:channel:c0general"],
  [
    at({ channel: "slack", kind: "channel", chat: "C0GENERAL", thread: "1700000000.000100" }),
    "agent:main:slack:channel:c0general:thread:1700000000.000100",
  ],
  [at({ channel: "web", chat: "main" }), "agent:main:web:dm:main"],
  [at({ channel: "telegram@work" }), "agent:main:telegram@work:dm:123"],
  [at({ channel: "slack@client-2", kind: "channel", chat: "C0GENERAL" }), "agent:main:slack@client-2:channel:c0general"],
  [at({ channel: "matrix", kind: "group", chat: "!AbC:server.org" }), "agent:main:matrix:group:%21AbC%3Aserver.org"],
  [
    at({ channel: "matrix@home", kind: "group", chat: "!a/../b:x", thread: "$Ev nt😀" }),
    "agent:main:matrix@home:group:%21a%2F..%2Fb%3Ax:topic:%24Ev%20nt%F0%9F%98%80",
  ],
])("[SE1][CH1] %j makes its key, and the key reads back", (address, key) => {
  expect(chatKey("main", address)).toBe(key);
  const { kind, chat, thread } = address;
  const parts = { kind: "chat", agentId: "main", channel: address.channel, shape: kind, chat };
  expect(parseKey(key)).toEqual(thread === undefined ? parts : { ...parts, thread });
});

it.each([
  ["!AbC:home.org", "%21AbC%3Ahome.org"],
  ["!abc:home.org", "%21abc%3Ahome.org"],
  ["!a b/c:x", "%21a%20b%2Fc%3Ax"],
  ["!a%20b:x", "%21a%2520b%3Ax"],
  ["..", "%2E."],
  ["!🦊:x", "%21%F0%9F%A6%8A%3Ax"],
  ["!é:x", "%21%C3%A9%3Ax"],
  ["!\u0065\u0301:x", "%21e%CC%81%3Ax"],
  ["!\u212a:x", "%21%E2%84%AA%3Ax"],
  [`!${"é".repeat(127)}`, `%21${"%C3%A9".repeat(127)}`],
])("[CH1] a room called %j keeps its case, and what is no plain sign is its bytes", (chat, segment) => {
  const address = at({ channel: "matrix", kind: "channel", chat, thread: "$Ev/en+t" });
  const key = `agent:main:matrix:channel:${segment}:thread:%24Ev%2Fen%2Bt`;
  expect(chatKey("main", address)).toBe(key);
  expect(parseKey(key)).toEqual({ kind: "chat", agentId: "main", channel: "matrix", shape: "channel", chat, thread: "$Ev/en+t" });
});

it.each(["", "!\ud800:x", `!${"x".repeat(255)}`])("[CH1] a room called %j is refused, not repaired", (chat) => {
  expect(() => chatKey("main", at({ channel: "matrix", chat }))).toThrow(RangeError);
});

it.each(["%41", "%21a%3ab", "%2", "%", "%C3", "a%2E", ".a", "a b", "%FF%FE", "%ED%A0%80"])(
  "[CH1] %j is what no id is escaped to",
  (segment) => {
    expect(parseKey(`agent:main:matrix:dm:${segment}`)).toBeNull();
  },
);

it("[SE1] a key says whose session it is; what is no key is nobody's", () => {
  const keys = ["agent:main:telegram:dm:123", subagentKey("helper", newId()), "agent:main", "agent::web:dm:x", "", "x:main:web:dm:main"];
  expect(keys.map(agentIdOf)).toEqual(["main", "helper", "", "", "", ""]);
});

it("[SE1] a sub-agent's key reads back, with a uuid and nothing else", () => {
  const uuid = newId();
  expect(parseKey(subagentKey("main", uuid))).toEqual({ kind: "subagent", agentId: "main", uuid });
  expect(parseKey(subagentKey("main", "last"))).toBeNull();
  expect(parseKey(`${subagentKey("main", uuid)}:topic:1`)).toBeNull();
});

it.each([
  ["empty", ""],
  ["only spaces", "   "],
  ["NUL", "agent:main:web:dm:a\0b"],
  ["10 000 characters", `agent:main:web:dm:${"a".repeat(10_000)}`],
  ["a path", "agent:main:web:dm:../../etc/passwd"],
  ["a path as agent", "agent:../x:web:dm:a"],
  ["upper case", "agent:Main:web:dm:a"],
  ["upper case chat", "agent:main:web:dm:A"],
  ["a composed letter", "agent:main:web:dm:\u00e9"],
  ["a decomposed letter", "agent:main:web:dm:e\u0301"],
  ["an unknown shape", "agent:main:web:room:a"],
  ["a shape of Object", "agent:main:web:constructor:a"],
  ["no chat", "agent:main:web:dm:"],
  ["one segment too many", "agent:main:web:dm:a:topic"],
  ["the wrong word for a thread", "agent:main:web:channel:a:topic:1"],
  ["a leading space", " agent:main:web:dm:a"],
  ["a trailing line break", "agent:main:web:dm:a\n"],
  ["another prefix", "user:main:web:dm:a"],
  ["a leading dot", "agent:main:web:dm:.hidden"],
  ["an account without a name", "agent:main:telegram@:dm:1"],
  ["an account in capitals", "agent:main:telegram@Work:dm:1"],
  ["an account of an account", "agent:main:telegram@a@b:dm:1"],
  ["an account's name of 33", `agent:main:telegram@${"a".repeat(33)}:dm:1`],
  ["an account alone", "agent:main:@work:dm:1"],
  ["an escape that is none", "agent:main:matrix:group:%2"],
  ["an escape in small letters", "agent:main:matrix:group:%21a%3ab"],
  ["an escape of what needs none", "agent:main:matrix:group:%61"],
  ["an escape that is no text", "agent:main:matrix:group:%FF"],
  ["an escape where there are none", "agent:main:telegram:dm:%31"],
  ["a lone sign", "agent:main:matrix:group:a%"],
])("[SE1] %s is no key", (_what, text) => {
  expect(parseKey(text)).toBeNull();
});

it.each([["a b"], ["a:b"], ["../x"], ["é"], [""], ["x".repeat(129)], ["a/b"], ["a\n"]])(
  "[SE1] a chat called %j is refused, not repaired",
  (chat) => {
    expect(() => chatKey("main", at({ chat }))).toThrow(RangeError);
    expect(() => chatKey("main", at({ thread: chat }))).toThrow(RangeError);
  },
);

it.each([
  ["main", true],
  ["a", true],
  ["0-agent_x", true],
  ["a".repeat(64), true],
  ["a".repeat(65), false],
  ["Main", false],
  ["-main", false],
  ["_main", false],
  ["", false],
  ["ma in", false],
  ["main\n", false],
  ["mäin", false],
  ["..", false],
])("[SE1] agent id %j: %s", (id, ok) => {
  expect(isAgentId(id)).toBe(ok);
});

it("[SE1] new ids are uuids of their own, and short ones are their first eight characters", () => {
  const ids = new Set(Array.from({ length: 1_000 }, newId));
  expect(ids.size).toBe(1_000);
  for (const id of ids) expect(isUuid(id) && shortId(id).length === 8 && id.startsWith(shortId(id))).toBe(true);
});

it.each([["c0ab"], ["C0aB"], ["D0person"]])(
  "[CH1] ACC-004 a Slack id with a small letter, %j, is refused: it would share a key",
  (chat) => {
    expect(() => chatKey("main", at({ channel: "slack", kind: "channel", chat }))).toThrow(RangeError);
    expect(() => chatKey("main", at({ channel: "slack@client", kind: "channel", chat }))).toThrow(RangeError);
  },
);

it("[CH1] ACC-004 ids that differ in case, signs or escapes have keys, places in the outbox and files of their own", () => {
  const ids = ["!AbC:x", "!abc:x", "!a:b", "!a%3Ab", "!a%253Ab", "!a/../b:x", "..", ".", "-", "@u:host:8448", "@u:host", " ", "!🚪:x"];
  const rooms = ids.map((chat) => at({ channel: "matrix", account: "@bot:x", chat }));
  const keys = rooms.map((room) => chatKey("main", room));
  const files = keys.map((key) => peerNameOf(key) ?? "");
  for (const names of [keys, rooms.map(addressKey), files.map((name) => name.toLowerCase())]) expect(new Set(names).size).toBe(ids.length);
  expect(keys.map((key) => parseKey(key))).toMatchObject(ids.map((chat) => ({ chat })));
  for (const name of files) expect(name).toMatch(/^matrix\+[a-z0-9._@+%-]+$/);
});

it("[CH1] an id of 255 bytes has a key, one byte more has none; nor has half a character", () => {
  for (const chat of ["x".repeat(255), "é".repeat(127), "😀".repeat(63)])
    expect(parseKey(chatKey("main", at({ channel: "matrix", chat, thread: chat })))).toMatchObject({ chat, thread: chat });
  for (const chat of ["", "x".repeat(256), "é".repeat(128), "\ud800"])
    expect(() => chatKey("main", at({ channel: "matrix", chat }))).toThrow(RangeError);
});

it("[CH1] the file about a person is named as before at a first account, and by account at every other", () => {
  const named = (more: Partial<Address>) => peerNameOf(chatKey("main", at(more)));
  expect(named({})).toBe("123");
  expect(named({ channel: "slack", chat: "D0PERSON" })).toBe("d0person");
  expect(named({ channel: "telegram@work" })).toBe("telegram@work+123");
  expect(named({ channel: "matrix", chat: "!Ab:x" })).toBe("matrix+%21%41b%3ax");
  expect(named({ kind: "group", chat: "-1" })).toBeNull();
  expect(peerNameOf(subagentKey("main", newId()))).toBeNull();
});

it("[DL5] one string per conversation: account, chat and thread all count", () => {
  const keys = [at({}), at({ account: "bot2" }), at({ chat: "124" }), at({ thread: "1" }), at({ channel: "slack" })].map(addressKey);
  expect(new Set(keys).size).toBe(5);
});

it("[DL5] ids that hold the sign between them are two conversations all the same", () => {
  const keys = [at({ chat: "!a", thread: "$b/c" }), at({ chat: "!a/$b", thread: "c" }), at({ chat: "!a%2F$b", thread: "c" })].map(
    addressKey,
  );
  expect(new Set(keys).size).toBe(3);
});
