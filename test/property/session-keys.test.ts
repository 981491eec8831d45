// Session keys: every text is refused or is exactly the key it reads as; every address is refused or has a key of its own.
import fc from "fast-check";
import { expect, it } from "vitest";
import type { Address } from "../../src/core/address.ts";
import { chatKey, isAgentId, isUuid, newId, type ParsedKey, parseKey, subagentKey } from "../../src/core/ids.ts";
import { cases, damagedText, hostileText } from "./cases.ts";

const KEYS = [
  "agent:main:telegram:dm:123",
  "agent:main:telegram:group:-1001234567890:topic:42",
  "agent:a_b-c:slack:channel:c0general:thread:1700000000.000100",
  "agent:main:web:dm:main",
  subagentKey("main", newId()),
];

const rebuild = (key: ParsedKey): string => {
  if (key.kind === "subagent") return subagentKey(key.agentId, key.uuid);
  const { channel, shape, chat, thread } = key;
  return chatKey(key.agentId, { channel, account: "x", chat, kind: shape, ...(thread === undefined ? {} : { thread }) });
};

it("[SE1] any text is no key, or one whose parts build the same text again", () => {
  const words = ["agent", "main", "web", "dm", "group", "channel", "topic", "thread", "subagent", "a", "-1", newId(), "", "constructor"];
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
      expect(text).toMatch(/^[a-z0-9_.@+:-]{1,512}$/);
      expect(text.includes("..") && key.kind === "subagent").toBe(false);
      if (key.kind === "subagent") expect(isUuid(key.uuid)).toBe(true);
    }),
    cases(),
  );
  expect(accepted).toBeGreaterThan(0);
});

const word = fc.oneof(
  { arbitrary: fc.stringMatching(/^[a-zA-Z0-9][a-zA-Z0-9._@+-]{0,8}$/), weight: 6 },
  { arbitrary: fc.constantFrom("123", "-100", "C0GENERAL", "1700000000.000100", "a:b", ""), weight: 2 },
  { arbitrary: hostileText, weight: 1 },
);
const address: fc.Arbitrary<Address> = fc
  .record({
    channel: fc.constantFrom("telegram", "slack", "web"),
    account: fc.constant("one"),
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

it("[SE1] two addresses share a key only when they differ in nothing but letter case or account", () => {
  // Often the same or nearly the same address: two at random never meet.
  const pair = fc
    .tuple(address, address, fc.nat(4))
    .map(([one, two, how]): [Address, Address] => [
      one,
      how === 0 ? two : { ...one, account: "two", ...(how === 1 ? { chat: two.chat } : {}) },
    ]);
  fc.assert(
    fc.property(pair, ([one, two]) => {
      const [first, second] = [keyOf(one), keyOf(two)];
      if (first === null || second === null) return;
      expect(parseKey(first)).not.toBeNull();
      const plain = ({ account: _, ...rest }: Address) => JSON.stringify(rest).toLowerCase();
      expect(first === second).toBe(plain(one) === plain(two));
    }),
    cases(),
  );
});
