// Slack payloads: any shape is nobody's message, or an Inbound whose ids are Slack's own and our workspace's.
import fc from "fast-check";
import { expect, it } from "vitest";
import { decodePayload } from "../../src/channels/slack/decode.ts";
import { toReadable } from "../../src/channels/slack/mrkdwn.ts";
import { externalIdOf } from "../../src/channels/slack/payload.ts";
import { chatKey, parseKey } from "../../src/core/ids.ts";
import { PRESS } from "../support/slack-payloads.ts";
import { cases, checkPrototype, damagedText, damagedTree, hostileText } from "./cases.ts";

const me = { userId: "U0BOT", botId: "B0BOT", teamId: "T1", appId: "A1" };
const ids = { team_id: "T1", api_app_id: "A1" };
const said = {
  type: "message",
  channel: "C1",
  channel_type: "channel",
  user: "U1",
  ts: "100.000001",
  text: "<@U0BOT> look at <https://x|y> &lt;b&gt;",
};
const event = (inner: object) => ({
  type: "event_callback",
  ...ids,
  event_id: "Ev1",
  authorizations: [{ team_id: "T1" }],
  event: { ...said, ...inner },
});
const PAYLOADS = [
  event({}),
  event({ channel: "D1", channel_type: "im", text: "!subagents list", thread_ts: "99.000001" }),
  event({ type: "app_mention", channel: "G1", channel_type: "mpim", parent_user_id: "U0BOT" }),
  event({ subtype: "file_share", files: [{ name: "a.txt", mimetype: "text/plain", size: 12 }], text: "" }),
  event({ subtype: "message_changed", message: said }),
  event({ bot_id: "B1", user: "U0BOT" }),
  { ...event({}), event: { type: "agent_session_stopped", channel: "C1", thread_ts: "100.000001", user: "U1" } },
  {
    command: "/subagents",
    text: "stop &amp; go",
    user_id: "U1",
    user_name: "ann",
    channel_id: "C1",
    channel_name: "general",
    trigger_id: "t",
    ...ids,
  },
  PRESS,
];
const payload = damagedTree(fc.constantFrom(...PAYLOADS));
const OURS = JSON.stringify("T1");

it("[SC1][SC5] any payload is nobody's message, or one of our workspace with Slack's own ids and an address that makes a session key", () => {
  let decoded = 0;
  fc.assert(
    fc.property(payload, fc.constantFrom(undefined, "mpim", "im"), (body, channelType) => {
      const inbound = decodePayload({ me, payload: body, ...(channelType === undefined ? {} : { channelType }) }, "A1");
      checkPrototype();
      if (inbound === null) return;
      decoded++;
      const { address, sender, text, words, kind, mentioned, ref, onlyTo, repliesTo, isWordless, ...rest } = inbound;
      expect(Object.keys(rest)).toEqual([]);
      // Answered to its sender alone, and only where others read along.
      if (onlyTo !== undefined) {
        expect(["command", "button"]).toContain(kind);
        expect([address.kind === "dm", onlyTo.user]).toEqual([false, sender.id]);
      }
      // A reply is to a message of its own thread.
      if (repliesTo !== undefined) expect([kind, repliesTo]).toEqual(["message", address.thread]);
      if (isWordless !== undefined) expect(kind).toBe("message");
      if (words !== undefined) expect(kind === "command" || (kind === "message" && text.includes(words))).toBe(true);
      const place = [address.channel, address.account, address.chat, address.thread ?? "-", address.kind].join(" ");
      expect(place).toMatch(/^slack A1 [CDG][A-Z0-9]{1,30} (-|\d{1,12}\.\d{1,9}) (dm|group|channel)$/);
      expect(`${sender.id} ${ref ?? "1.1"}`).toMatch(/^[UW][A-Z0-9]{1,30} \d{1,12}\.\d{1,9}$/);
      expect([me.userId, "USLACKBOT"]).not.toContain(sender.id);
      expect(sender.name ?? "x").toMatch(/^\P{C}{1,100}$/u);
      expect(text.trim() !== "" && text.isWellFormed() && text.length < 50_000).toBe(true);
      if (kind === "button") expect(text.startsWith("/") && mentioned).toBe(true);
      if (kind === "command") expect(/^[/!]/.test(text) && mentioned).toBe(true);
      expect(parseKey(chatKey("main", address))).not.toBeNull();
      if (JSON.stringify(body).includes(OURS) === false) throw new Error("another workspace's payload was taken");
    }),
    cases(),
  );
  expect(decoded).toBeGreaterThan(0);
});

it("[RC3] any payload has a name for the inbox, the same for its replay, and both events of a mention share it", () => {
  fc.assert(
    fc.property(payload, hostileText, (body, other) => {
      const name = externalIdOf(body, "fallback");
      expect(name.length > 0 && name.length <= 410 && name === externalIdOf(body, "fallback")).toBe(true);
      const both = ["message", "app_mention"].map((type) =>
        externalIdOf({ ...event({ type }), event_id: `Ev${type}${other}` }, "fallback"),
      );
      expect(both[0]).toBe(both[1]);
      expect(decodePayload({ payload: body, me: other }, "A1")).toBeNull();
    }),
    cases(2), // each is named and decoded five times
  );
});

it("[AG4] any text becomes readable in one pass: no link is left that Slack made, and typed brackets stay typed", () => {
  const piece = fc.constantFrom(
    "<@U1|ann>",
    "<@U1>",
    "<#C1|general>",
    "<!here>",
    "<!date^1^x|y>",
    "<https://x|y>",
    "<mailto:a@b|a@b>",
    "&lt;@U1&gt;",
    "&amp;lt;",
    " ",
  );
  const text = damagedText(fc.array(fc.oneof(piece, hostileText), { maxLength: 4 }).map((parts) => parts.join("")));
  fc.assert(
    fc.property(text, (written) => {
      const readable = toReadable(written);
      // Bounded: labels and targets are shown once each, in brackets at most.
      expect(readable.length).toBeLessThanOrEqual(written.length * 2 + 10);
      const typed = written.replace(/[<>&]/g, (sign) => ({ "<": "&lt;", ">": "&gt;", "&": "&amp;" })[sign] ?? sign);
      expect(toReadable(typed)).toBe(written);
    }),
    cases(2), // each is read twice
  );
});

it("[SC5] a length that can't be compared is no payload", () => {
  const team_id: unknown = JSON.parse('{"length":{"toString":1,"valueOf":1}}');
  expect(decodePayload({ me, payload: { ...event({}), team_id } }, "A1")).toBeNull();
});
