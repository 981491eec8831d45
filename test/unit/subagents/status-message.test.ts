// A batch's status message as people read it: signs, lines, buttons, and that it is the same bytes as long as nothing changed.
import { describe, expect, it } from "vitest";
import { createTelegramChannel } from "../../../src/channels/telegram/channel.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import type { Run } from "../../../src/core/run.ts";
import { nextTickAt, statusMessage, statusParts } from "../../../src/subagents/status-message.ts";
import { makeRun } from "../../support/runs.ts";

const NOW = 1_800_000_000_000;
const BATCH = "0123456789ab";
const run = (label: string, changes: Partial<Run> = {}): Run =>
  makeRun({
    id: `11111111-2222-4333-8444-${label.padEnd(12, "0").slice(0, 12)}`,
    label,
    batch: BATCH,
    startedAt: NOW - 45_000,
    ...changes,
  });
const ended = (label: string, state: Run["state"]): Run => run(label, { state, endedAt: NOW - 1_000 });
const lines = (runs: readonly Run[], now = NOW): string[] => statusMessage(runs, now).markdown.split("  \n");

describe("the text", () => {
  it("[GR5][LV1] a group has a heading above its runs, and says how many of them will do", () => {
    const of = (label: string, groupId: string | null): Run => ({ ...run(label), groupId });
    const runs = [of("a", "g1"), of("b", "g1"), of("alone", null), of("c", "g2")];
    const groups = [
      { id: "g1", name: "weather", enough: null },
      { id: "g2", name: "*race*", enough: 2 },
    ];
    const shown = statusMessage(runs, NOW, { groups }).markdown.split("  \n");
    expect(shown.map((line) => line.split(" · ")[0])).toEqual([
      "**▶ 4**",
      "👥 weather",
      "▶ a",
      "▶ b",
      "▶ alone",
      expect.stringContaining("race"),
      "▶ c",
    ]);
    expect(shown[5]).toContain("2 of them will do");
  });

  it("[LV1] first how many are at what, then a line for each with step or tool, time and cost", () => {
    const asking = { for: "answer", id: "q", since: NOW, until: NOW + 1_000 } as const;
    expect(
      lines([
        run("reads", { doing: "web_fetch", spend: { usage: null, costUsd: 0.123 } }),
        run("plans", {
          plan: [
            { title: "Look", status: "done" },
            { title: "Write", status: "doing" },
          ],
        }),
        run("waits", { state: "queued", startedAt: null }),
        run("asks", { state: "waiting", waits: [asking], doing: "waiting for an answer" }),
        run("rests", { state: "waiting", waits: [{ for: "children" }], doing: "waiting for 2 sub-agents" }),
        ...["done", "error", "timeout", "interrupted", "stopped"].map((state) => ended(state, state as Run["state"])),
      ]),
    ).toEqual([
      "**▶ 2 · 💤 1 · ⏳ 1 · ❓ 1 · ✓ 1 · ✗ 3 · ⏹ 1**",
      "▶ reads · web_fetch · 45s · est $0.12",
      "▶ plans · 2/2 Write · 45s",
      "⏳ waits",
      "❓ asks · waiting for an answer · 45s",
      "💤 rests · waiting for 2 sub-agents · 45s",
      "✓ done · 44s",
      "✗ error · 44s",
      "✗ timeout · timeout · 44s",
      "✗ interrupted · interrupted · 44s",
      "⏹ stopped · 44s",
    ]);
  });

  it("[LV2] times tick together, every 15 s and later every minute; in between it is the same bytes", () => {
    const runs = [run("one"), run("two", { startedAt: NOW - 7_000 })];
    const boundary = nextTickAt(runs, NOW) ?? 0;
    expect(boundary - NOW).toBeGreaterThan(0);
    expect(boundary - NOW).toBeLessThanOrEqual(15_000);
    const texts = Array.from({ length: 60 }, (_, second) => statusMessage(runs, NOW + second * 1_000).markdown);
    expect(new Set(texts).size).toBeLessThanOrEqual(5);
    expect(statusMessage(runs, boundary - 1)).toEqual(statusMessage(runs, NOW));
    expect(statusMessage(runs, boundary)).not.toEqual(statusMessage(runs, NOW));
    const old = [run("old", { startedAt: NOW - 3_600_000 })];
    const later = Array.from({ length: 300 }, (_, second) => statusMessage(old, NOW + second * 1_000).markdown);
    expect(new Set(later).size).toBeLessThanOrEqual(6);
    expect(nextTickAt([ended("over", "done"), run("queued", { state: "queued", startedAt: null })], NOW)).toBeNull();
  });

  it("[LV1][IN4] labels are one line and no markup of theirs", () => {
    const [, line] = lines([run("x", { label: "**a** `b`\n✓ forged · 1s\n[c](http://d) @all <!here> <|im_end|>", doing: "_e_" })]);
    expect(line).toBe("▶ \\*\\*a\\*\\* \\`b\\` ✓ forged · 1s \\[c\\](http://d) @all \\<\\!here\\> · \\_e\\_ · 45s");
  });
});

describe("one message of the platform", () => {
  const channel = createTelegramChannel({
    ...{ botToken: "7000001:fake-token-for-tests-0123456789", mode: "polling", clock: systemClock, log: silentLogger },
  });

  it("[LV1] with any number of runs and the longest labels; those that need somebody, failed or run are shown", () => {
    const many = Array.from({ length: 200 }, (_, n) => ended(`${n}`.padStart(12, "0"), "done")).map((one) => ({
      ...one,
      label: "look into [it] & report ".repeat(4),
    }));
    const failed = { ...ended("ffffffffffff", "error"), label: "the one that failed" };
    const parts = statusParts(channel, [...many, failed], NOW);
    expect(parts).toHaveLength(1);
    const text = String((parts[0] as { text: string }).text);
    expect(text.length).toBeLessThanOrEqual(4_096);
    expect(text).toMatch(/^✓ 200 · ✗ 1\n[\s\S]*✗ the one that failed[\s\S]*\nand \d+ more$/);
  });

  it("[LV1][LV4] a Stop for up to six, Stop all and List, each within 64 bytes and for one generation; none at the end", () => {
    const runs = Array.from({ length: 9 }, (_, n) => run(`job${n}`, { generation: n === 3 ? 12_345 : 1 }));
    const { buttons = [] } = statusMessage(runs, NOW);
    expect(buttons.map(({ label }) => label)).toEqual([...Array.from({ length: 6 }, (_, n) => `Stop job${n}`), "Stop all", "List"]);
    expect(buttons.map(({ command }) => command).slice(3, 4)).toEqual([`/subagents stop ${runs[3]?.id}@12345`]);
    expect(buttons.at(-2)?.command).toBe(`/subagents stop batch:${BATCH}@12345`);
    for (const { command } of buttons) expect(Buffer.byteLength(command)).toBeLessThanOrEqual(64);
    expect(statusMessage([run("alone")], NOW).buttons?.map(({ label }) => label)).toEqual(["Stop", "List"]);
    expect(statusMessage([ended("over", "done"), ended("too", "stopped")], NOW).buttons).toEqual([]);
  });
});
