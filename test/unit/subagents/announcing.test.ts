// Where one run is announced, from the settings and who asked; how the place reads elsewhere; and a digest as people read it.
import { expect, it } from "vitest";
import { MAX_CALLBACK_BYTES } from "../../../src/channels/telegram/render.ts";
import type { Address } from "../../../src/core/address.ts";
import { ALWAYS, type EndState, type Run } from "../../../src/core/run.ts";
import { announcementOf } from "../../../src/subagents/announcement.ts";
import { askedFor, pinAnnouncing, wayOf } from "../../../src/subagents/announcing.ts";
import { digestMessage } from "../../../src/subagents/digest-message.ts";
import { makeRun } from "../../support/runs.ts";

const TOPIC: Address = { channel: "telegram", account: "123", chat: "-1001", thread: "7", kind: "group" };
const THREAD: Address = { channel: "slack", account: "T0", chat: "C0ROOM", thread: "17.1", kind: "channel" };
const ADA = { id: "42", name: "Ada" };
const accounts = (channel: string): string | null => (channel === "telegram" ? "123" : null);
const policy = { when: "always", everyMinutes: null, to: "thread" } as const;

it("[AP1] the thread that asked is the default, and pinned as nothing at all", () => {
  expect(pinAnnouncing(policy, { address: TOPIC, person: ADA }, accounts)).toBe(ALWAYS);
  expect(pinAnnouncing({ ...policy, to: { ...TOPIC } }, { address: TOPIC, person: ADA }, accounts)).toBe(ALWAYS);
});

it("[AP1] dm is the direct chat of who asked: on Telegram by their id, on Slack by theirs, elsewhere where they are", () => {
  const dm = { ...policy, to: "dm" } as const;
  expect(pinAnnouncing(dm, { address: TOPIC, person: ADA }, accounts).to).toEqual({
    channel: "telegram",
    account: "123",
    chat: "42",
    kind: "dm",
  });
  expect(pinAnnouncing(dm, { address: THREAD, person: { id: "U0ADA" } }, accounts).to).toEqual({
    ...{ channel: "slack", account: "T0", chat: "U0ADA", kind: "dm" },
  });
  const page: Address = { channel: "web", account: "local", chat: "main", kind: "dm" };
  expect(pinAnnouncing(dm, { address: page, person: { id: "local" } }, accounts)).toBe(ALWAYS);
  const direct: Address = { channel: "telegram", account: "123", chat: "42", thread: "9", kind: "dm" };
  expect(pinAnnouncing({ ...dm, when: "failures" }, { address: direct, person: ADA }, accounts)).toEqual({
    ...{ when: "failures", everyMinutes: null, to: null },
  });
});

it("[AP1] POLI-006 without a person who asked there is no direct chat", () => {
  expect(pinAnnouncing({ ...policy, to: "dm" }, { address: TOPIC, person: null }, accounts).to).toBe("nobody");
});

it("[AP1] an address without an account is the only one of its channel; an account that is not known serves nobody", () => {
  const at = (channel: string) => ({ ...policy, to: { channel, chat: "-2002", kind: "group" as const } });
  expect(pinAnnouncing(at("telegram"), { address: THREAD, person: ADA }, accounts).to).toMatchObject({ account: "123", chat: "-2002" });
  expect(pinAnnouncing(at("slack"), { address: TOPIC, person: ADA }, accounts).to).toMatchObject({ account: "" });
});

it.each<[Run["announcing"]["when"], EndState, string]>([
  ["always", "done", "post"],
  ["failures", "done", "keep"],
  ["digest", "done", "hold"],
  ...(["error", "timeout", "interrupted"] as const).flatMap((as): [Run["announcing"]["when"], EndState, string][] => [
    ["failures", as, "post"],
    ["digest", as, "post"],
  ]),
])("[AP1] with %s what ends as %s: %s", (when, as, way) => {
  expect(wayOf({ announcing: { ...ALWAYS, when } }, as)).toBe(way);
});

it.each<[Address, Run["person"], string]>([
  [TOPIC, ADA, "asked for by Ada in the Telegram group -1001, topic 7"],
  [THREAD, { id: "U0ADA" }, "asked for by U0ADA in the Slack channel C0ROOM, thread 17.1"],
  [{ channel: "telegram", account: "1", chat: "42", kind: "dm" }, ADA, "asked for by Ada in a direct chat on Telegram"],
  [{ channel: "web", account: "local", chat: "main", kind: "dm" }, { id: "local" }, "asked for on the page"],
  [{ channel: "slack", account: "T0", chat: "C0ROOM", kind: "channel" }, null, "asked for in the Slack channel C0ROOM"],
])("[AP1] where it was asked for, in words: %j", (address, person, words) => {
  expect(askedFor({ address, person })).toBe(words);
});

const ENDED = {
  ...{ as: "done" as const, answer: { result: "", notes: "" }, remarks: [], now: 1_065_000 },
  ...{ transcript: "/t.jsonl", limit: null, reason: null, link: null },
} as const;
const announced = (run: Run, result: string) => announcementOf({ ...ENDED, run, answer: { result, notes: "" } });

it("[AP1][AN2] the heading says where it was asked for only where that was elsewhere; a name is one line", () => {
  const here = makeRun({ address: TOPIC, person: ADA });
  const there = { ...here, person: { id: "42", name: "A\nda" }, announcing: { ...ALWAYS, to: THREAD } };
  expect(announced(here, "x").markdown).toMatch(/^\*\*Sub-agent: count lines\*\*\n\nStatus: success\n/);
  expect(announced(there, "x").markdown).toMatch(
    /^\*\*Sub-agent: count lines\*\* \(asked for by A da in the Telegram group -1001, topic 7\)\n\nStatus: success\n/,
  );
});

it("[WB5][AN2] where people can open the page from elsewhere, the heading leads to the run; the form below stays", () => {
  const run = makeRun({ address: TOPIC, person: ADA });
  const { markdown } = announcementOf({ ...ENDED, run, link: `https://herald.example/#/run/${run.id}` });
  expect(markdown).toBe(
    `**Sub-agent: count lines** · [open](https://herald.example/#/run/${run.id})\n\nStatus: success\n\nResult:\n(not available)\n\nNotes:\n- (none)`,
  );
});

it("[BG6][AP1] the button that raises its limit stands where the run was asked for, fits every platform, and nowhere else", () => {
  const here = makeRun({ address: TOPIC, person: ADA, budget: { usd: 250_000_000, tokens: 1_000_000_000 }, generation: 9_999 });
  const reason = "The budget of this run is used up: $250.00 of $250.00";
  const buttons = (run: Run) => announcementOf({ ...ENDED, run, reason }).buttons;
  expect(buttons(here)).toEqual([{ label: "Go on, +$250.00, +1000M tokens", command: `/subagents budget ${here.id} x2 g9999` }]);
  expect(Buffer.byteLength(buttons(here)?.[0]?.command ?? "")).toBeLessThanOrEqual(MAX_CALLBACK_BYTES);
  expect(buttons({ ...here, announcing: { ...ALWAYS, to: THREAD } })).toBeUndefined();
});

it("[AP1][MO3] a digest names everybody first, then each whole with its own figures, and sums them up", () => {
  const spent = (costUsd: number | null) => ({ usage: { input: 1_000, output: 100, cacheRead: 0, cacheWrite: 0 }, costUsd });
  const run = (label: string, costUsd: number | null) => makeRun({ label, endedAt: 1_060_000, spend: spent(costUsd) });
  const entry = (one: Run) => ({ run: one, message: announced(one, `what ${one.label} found`) });
  const { markdown, stats, kind, fileName } = digestMessage([entry(run("a", 0.1)), entry(run("b", 0.2))], 1_065_000);
  expect(markdown).toMatch(/^\*\*Digest: 2 sub-agents finished\*\*\n\na · b\n\n――――――――――\n\n\*\*Sub-agent: a\*\*/);
  expect(markdown.match(/^Stats: runtime 1m00s • tokens 1\.1k \(in 1k \/ out 100\) • est \$0\.\d0$/gm)).toHaveLength(2);
  expect({ kind, fileName }).toEqual({ kind: "announcement", fileName: "digest.md" });
  expect(stats?.figures).toEqual(["runtime 2m00s in all", "tokens 2.2k (in 2k / out 200)", "est $0.30"]);
  expect(stats?.names).toHaveLength(2);
  expect(digestMessage([entry(run("a", 0.1)), entry(run("b", null))], 0).stats?.figures.join()).not.toContain("$");
  const many = digestMessage(
    Array.from({ length: 25 }, (_, n) => entry(run(`r${n}`, null))),
    0,
  );
  expect(many.stats?.names.at(-1)).toBe("and 5 more: /subagents all");
});
