// Drafts: what is rendered, when, and by whom.
import { expect, it } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { createTurns } from "../../../src/web/turns.ts";
import { waitFor } from "../../support/wait.ts";

const WHERE = { sessionKey: "k", address: { channel: "web", account: "local", chat: "main", kind: "dm" }, turnId: "t1" } as const;

it("[WB1] every draft is rendered by the renderer, which has a worker for long ones, and one at a time", async () => {
  const asked: string[] = [];
  let finish: (() => void) | null = null;
  const turns = createTurns({
    ...{ clock: systemClock, signal: new AbortController().signal, onWorking() {}, onDraft() {}, isWatched: () => true },
    ...{ redact: (text) => text, heldBack: () => 0, onError: (error) => expect.unreachable(String(error)) },
    render: (markdown) =>
      new Promise((resolve) => {
        asked.push(markdown);
        finish = () => resolve(`<p>${markdown}</p>`);
      }),
  });
  const long = "word ".repeat(4_000);
  turns.see({ type: "turn.started", ...WHERE });
  turns.see({ type: "turn.text", ...WHERE, text: long });
  await waitFor("the first to be rendered", () => finish !== null);
  expect(turns.draft("main")).toBeNull();
  // Written while that is being rendered: shown next, all at once.
  turns.see({ type: "turn.text", ...WHERE, text: `${long}a` });
  turns.see({ type: "turn.text", ...WHERE, text: `${long}b` });
  (finish as (() => void) | null)?.();
  await waitFor("the second to be rendered", () => asked.length === 2);
  expect(turns.draft("main")?.html).toBe(`<p>${long}</p>`);
  expect(asked).toEqual([long, `${long}b`]);
});

it("[WB1] while nobody looks at a chat nothing of it is rendered or told; who comes then reads what was written before", async () => {
  const told: string[] = [];
  let isWatched = false;
  const turns = createTurns({
    ...{ clock: systemClock, signal: new AbortController().signal, onDraft: () => void told.push("draft"), isWatched: () => isWatched },
    ...{ redact: (text) => text, heldBack: () => 0, onError: (error) => expect.unreachable(String(error)) },
    onWorking: () => void told.push("working"),
    render: async (markdown) => {
      expect(isWatched).toBe(true);
      return `<p>${markdown}</p>`;
    },
  });
  turns.see({ type: "turn.started", ...WHERE });
  turns.see({ type: "turn.doing", ...WHERE, runId: null, doing: "thinking" });
  turns.see({ type: "turn.text", ...WHERE, text: "Hello" });
  await new Promise((resolve) => setTimeout(resolve, 250));
  expect([told, turns.draft("main")]).toEqual([[], null]);
  expect(turns.working("main")).toMatchObject({ working: true, doing: "thinking" });
  isWatched = true;
  turns.watch("main");
  await waitFor("the draft", () => turns.draft("main")?.html === "<p>Hello</p>");
  turns.see({ type: "turn.ended", ...WHERE, outcome: "done" });
  expect(told).toEqual(["draft", "working"]);
});
