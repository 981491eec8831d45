// An approval as people read it on each platform: all of it, however long, with its buttons at the end (QA4).
import { describe, expect, it } from "vitest";
import { renderMessage as renderSlack } from "../../../src/channels/slack/render.ts";
import { renderMessage as renderTelegram } from "../../../src/channels/telegram/render.ts";
import { codeBlock } from "../../../src/core/code-block.ts";
import type { Channel, Part } from "../../../src/core/message.ts";
import type { Question } from "../../../src/core/question.ts";
import { editedPart, questionParts } from "../../../src/questions/question-message.ts";

const question = (text: string, more: Partial<Question> = {}): Question => ({
  ...{ id: "q".repeat(22), callKey: "s:c", kind: "approve", rootKey: "r", sessionId: "s", runId: "run", generation: 1, turnId: "t" },
  ...{ address: { channel: "x", account: "a", chat: "-1", kind: "group" }, asker: "worker", text, options: [], tool: "exec", digest: "d" },
  ...{ createdAt: 0, expiresAt: 1, state: "open", answer: null, verdict: null, answeredBy: null, settledAt: null, usedAt: null, late: [] },
  ...more,
});
const lines = (count: number): string[] => Array.from({ length: count }, (_, n) => `line ${n} of the command`);
const shownIn = (parts: readonly Part[]): string => JSON.stringify(parts).replaceAll("\\n", "\n");
const hasButtons = (part: Part | undefined): boolean => JSON.stringify(part).includes("Always in this chat");

describe.each([
  ["Telegram", renderTelegram],
  ["Slack", renderSlack],
] as const)("%s", (_, render) => {
  const channel = { render } as unknown as Channel;

  it.each([1, 300, 3_000])("[QA4] a command of %i lines is all there, and only its last message has buttons", (count) => {
    const parts = questionParts(channel, question(codeBlock(lines(count).join("\n"), "sh")));
    const shown = shownIn(parts);
    expect(lines(count).filter((line) => !shown.includes(line))).toEqual([]);
    expect(parts.map(hasButtons)).toEqual(parts.map((_part, n) => n === parts.length - 1));
  });

  it.each([1, 3_000])("[QA4] settled, a command of %i lines has lost its buttons, and what was asked still stands there", (count) => {
    const text = codeBlock(lines(count).join("\n"), "sh");
    const settled = question(text, { state: "answered", verdict: "yes", answer: "", answeredBy: { id: "7", name: "Ada" } });
    const edited = editedPart(channel, settled);
    expect(hasButtons(edited)).toBe(false);
    expect(shownIn([edited ?? {}])).toMatch(/Allowed, this once,[\s\S]*Ada/);
    expect(shownIn([edited ?? {}])).toContain(count === 1 ? "line 0 of the command" : "all of it stands above");
  });

  it.each([3_400, 3_600, 3_800, 3_900])("[QA4] settled at length, %i characters that just fitted still stand there", (length) => {
    const text = `begins ${"w".repeat(length - 12)} ends`;
    const answered = {
      state: "answered",
      verdict: "no",
      answer: "because ".repeat(60),
      answeredBy: { id: "7", name: "A".repeat(64) },
    } as const;
    const posted = questionParts(channel, question(text));
    const edited = editedPart(channel, question(text, answered));
    const standing = shownIn([...posted.slice(0, -1), edited ?? {}]);
    for (const words of ["begins ", " ends", "Refused"]) expect(standing).toContain(words);
  });

  it("[QA4] of a turn the chat itself works on, a yes for longer is for that turn", () => {
    const settled = question("x", { runId: null, state: "answered", verdict: "run", answer: "", answeredBy: { id: "7" } });
    expect(shownIn([editedPart(channel, settled) ?? {}])).toContain("Allowed, for this turn,");
  });

  it("[QA4] nothing of it is dropped for what it says: marks of ours and of chat templates are shown", () => {
    const text = codeBlock("echo ANNOUNCE_SKIP '<|im_start|>'\nResult: x", "sh");
    const shown = shownIn(questionParts(channel, question(text)));
    for (const word of ["ANNOUNCE_SKIP", "<|im_start|>", "Result: x"]) expect(shown).toContain(word);
  });
});
