// Session keys: every text is refused or is exactly the key it reads as; every address is refused or has a key of its own.
import fc from "fast-check";
import { expect, it } from "vitest";
import { type Address, addressKey, wholeChatKey } from "../../src/core/address.ts";
import { chatKey, isAgentId, isUuid, newId, type ParsedKey, parseKey, peerNameOf, programKey, subagentKey } from "../../src/core/ids.ts";
import { cases, damagedText, hostileText } from "./cases.ts";

const KEYS = [
  "agent:main:telegram:dm:123",
  "agent:main:telegram:group:-1001234567890:topic:42",
  "agent:a_b-c:slack:channel:c0general:thread:1700000000.000100",
  "agent:main:web:dm:main",
  "agent:main:telegram@work:dm:123",
  "agent:main:matrix@home:group:%21AbC%3Aserver.org:topic:%24Ev%20nt%F0%9F%98%80",
  "agent:main:matrix:channel:%21AbC%3Ahome.org:thread:%24x%2Fy",
  subagentKey("main", newId()),
  programKey("main", newId(), "claude-code"),
];

const rebuild = (key: ParsedKey): string => {
  if (key.kind === "subagent") return subagentKey(key.agentId, key.uuid);
  if (key.kind === "program") return programKey(key.agentId, key.token, key.name);
  const { channel, shape, chat, thread } = key;
  return chatKey(key.agentId, { channel, account: "x", chat, kind: shape, ...(thread === undefined ? {} : { thread }) });
};

it("[SE1] any text is no key, or one whose parts build the same text again", () => {
  const words = [
    "agent",
    "main",
    "web",
    "dm",
    "group",
    "channel",
    "topic",
    "thread",
    "subagent",
    "mcp",
    "a",
    "-1",
    newId(),
    "",
    "constructor",
    "matrix",
    "slack@work",
    "%21A",
    "%",
  ];
  const soup = fc.array(fc.oneof(fc.constantFrom(...words), hostileText), { minLength: 3, maxLength: 8 }).map((parts) => parts.join(":"));
  let accepted = 0;
  fc.assert(
    fc.property(fc.oneof({ arbitrary: damagedText(fc.constantFrom(...KEYS)), weight: 3 }, { arbitrary: soup, weight: 1 }), (text) => {
      const key = parseKey(text);
      if (key === null) return;
      accepted++;
      expect(rebuild(key)).toBe(text);
      expect(isAgentId(key.agentId)).toBe(true);
      // Nothing in a key means something to a file system, a shell or a terminal.
      expect(text).toMatch(/^[A-Za-z0-9_.@+:%-]{1,2048}$/);
      expect(text.includes("..") && key.kind === "subagent").toBe(false);
      if (key.kind === "subagent") expect(isUuid(key.uuid)).toBe(true);
    }),
    cases(),
  );
  expect(accepted).toBeGreaterThan(0);
});

const word = fc.oneof(
  { arbitrary: fc.stringMatching(/^[a-zA-Z0-9][a-zA-Z0-9._@+-]{0,8}$/), weight: 4 },
  { arbitrary: fc.stringMatching(/^[!$@][aA]{1,3}[:%/ .]{0,2}[aA3]{0,3}$/), weight: 4 },
  { arbitrary: fc.constantFrom("123", "-100", "C0GENERAL", "c0general", "1700000000.000100", "a:b", "", "-", ".."), weight: 2 },
  { arbitrary: fc.constantFrom("!AbC:server.org", "!abc:server.org", "@u:host:8448", "!🚪 :x", "é".repeat(127)), weight: 2 },
  { arbitrary: hostileText, weight: 1 },
);
const address: fc.Arbitrary<Address> = fc
  .record({
    channel: fc.constantFrom("telegram", "telegram@work", "slack", "slack@work", "web", "matrix", "matrix@home"),
    account: fc.constantFrom("one", "@bot:x", "a/b"),
    chat: word,
    kind: fc.constantFrom("dm" as const, "group" as const, "channel" as const),
    thread: fc.option(word, { nil: undefined }),
  })
  .map(({ thread, ...rest }) => (thread === undefined ? rest : { ...rest, thread }));

/** Null for an address that is refused. */
function keyOf(of: Address): string | null {
  try {
    return chatKey("main", of);
  } catch (error) {
    expect(error).toBeInstanceOf(RangeError);
    return null;
  }
}

/** Often the same or nearly the same address: two at random never meet. */
const pair = fc
  .tuple(address, address, fc.nat(6))
  .map(([one, two, how]): [Address, Address] => [
    one,
    how === 0
      ? two
      : { ...one, ...[{ account: "two" }, { chat: two.chat }, { chat: swapped(one.chat) }, { channel: two.channel }, {}, {}][how - 1] },
  ]);
const swapped = (text: string): string => text.replace(/[A-Za-z]/g, (sign) => (sign < "a" ? sign.toLowerCase() : sign.toUpperCase()));

it("[SE1][CH1] two addresses share a key only when they differ in nothing but what the platform calls the bot, and a key reads back", () => {
  fc.assert(
    fc.property(pair, ([one, two]) => {
      const [first, second] = [keyOf(one), keyOf(two)];
      if (first === null || second === null) return;
      const { chat, thread, channel, kind: shape } = one;
      const parts = { kind: "chat", agentId: "main", channel, shape, chat };
      expect(parseKey(first)).toEqual(thread === undefined ? parts : { ...parts, thread });
      const plain = ({ account: _, ...rest }: Address) => JSON.stringify(rest);
      expect(first === second).toBe(plain(one) === plain(two));
    }),
    cases(),
  );
});

it("[DL5][CH1] two places share order, lock and outbox only when they are the same place", () => {
  const place = ({ channel, account, chat, thread }: Address) => JSON.stringify([channel, account, chat, thread]);
  fc.assert(
    fc.property(pair, ([one, two]) => {
      if (!one.chat.isWellFormed() || !two.chat.isWellFormed()) return;
      expect(addressKey(one) === addressKey(two)).toBe(place(one) === place(two));
      expect(addressKey(one).startsWith(`${wholeChatKey(one)}/`)).toBe(true);
      expect(addressKey(one).split("/")).toHaveLength(4);
    }),
    cases(),
  );
});

it("[CH1] the file about a person is one of its own also where a file system tells no case apart, and stays in its folder", () => {
  fc.assert(
    fc.property(pair, ([one, two]) => {
      const [first, second] = [one, two].map((of) => keyOf({ ...of, kind: "dm" }));
      if (first == null || second == null) return;
      const [mine, theirs] = [peerNameOf(first) ?? "", peerNameOf(second) ?? ""];
      expect(mine).toMatch(/^[a-z0-9._@+%-]+$/);
      expect(mine).not.toMatch(/^\.|\//);
      // Of the three platforms that had such files before they are named by the id alone.
      const isOld = [one, two].every(({ channel }) => ["telegram", "slack", "web"].includes(channel));
      const person = ({ channel, chat }: Address) => JSON.stringify(isOld ? chat.toLowerCase() : [channel, chat]);
      expect(mine === theirs).toBe(person(one) === person(two));
    }),
    cases(2),
  );
});
