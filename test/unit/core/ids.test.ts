// Session keys and ids: built from addresses, read back exactly, and refused when malformed, never repaired.
import { expect, it } from "vitest";
import { type Address, addressKey } from "../../../src/core/address.ts";
import { agentIdOf, chatKey, isAgentId, isUuid, newId, parseKey, shortId, subagentKey } from "../../../src/core/ids.ts";

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
])("[SE1] %j makes its key, and the key reads back", (address, key) => {
  expect(chatKey("main", address)).toBe(key);
  const { kind, chat, thread } = address;
  const parts = { kind: "chat", agentId: "main", channel: address.channel, shape: kind, chat: chat.toLowerCase() };
  expect(parseKey(key)).toEqual(thread === undefined ? parts : { ...parts, thread });
});

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

it("[DL5] one string per conversation: account, chat and thread all count", () => {
  const keys = [at({}), at({ account: "bot2" }), at({ chat: "124" }), at({ thread: "1" }), at({ channel: "slack" })].map(addressKey);
  expect(new Set(keys).size).toBe(5);
});
