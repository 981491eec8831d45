// Kill -9 on Matrix beside what every channel goes through (channels-kill.test.ts): while an answer is read as it is written, in the
// middle of calls, and with a server that has forgotten its transactions. What is left is the answer, whole, once, in its thread.
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { beforeKill } from "../support/before-kill.ts";
import type { Step } from "../support/brain.ts";
import { type ChannelScene, createChannelScene, newestWords } from "../support/channel-scene.ts";
import { PERSON } from "../support/fake-matrix.ts";
import type { Fault } from "../support/fake-matrix-state.ts";
import type { Respond } from "../support/fake-model-server.ts";
import { inPieces, inStep } from "../support/read-along.ts";
import { waitFor } from "../support/wait.ts";

/** How often each point is tried; CI asks for more. */
const KILLS = Number(process.env.HERALD_TEST_KILLS ?? 1);
const rounds = Array.from({ length: KILLS }, (_, round) => round);

const ROOM = "!Room:home.test";
const POINTS = [
  "draft.begun",
  "draft.shown",
  "draft.placed",
  "turn.committed",
  "delivery.marked",
  "delivery.sent",
  "delivery.settled",
] as const;

const answerTo = (question: string): string =>
  `The answer to ${question} is written slowly enough to be read along by whoever asked for it.`;

interface Rig extends AsyncDisposable {
  readonly scene: ChannelScene;
  ask(round: number): string;
  expectOnly(thread: string, round: number): Promise<void>;
}

/** In its own time, whoever reads along. */
const slowly = (text: string): Step => ({ pieces: text.match(/[\s\S]{1,30}/g) ?? [], pieceMs: 400 });
const asItIsRead = (text: string): Step => inPieces(text, 2);

/** Written so the first time it is asked; what was killed then is answered at once. */
async function createRig({ failpoint, write = asItIsRead }: { failpoint?: string; write?: (text: string) => Step } = {}): Promise<Rig> {
  const asked = new Set<string>();
  const respond: Respond = (request) => {
    const text = answerTo(newestWords(request));
    const isFirst = !asked.has(text);
    asked.add(text);
    return isFirst ? write(text) : { text };
  };
  const scene: ChannelScene = await createChannelScene({
    ...{ telegram: null, slack: null },
    matrix: { allowFrom: [PERSON], rooms: { [ROOM]: { requireMention: false } } },
    respond: inStep(respond, () => scene),
  });
  const { matrix, herald } = scene;
  matrix.room(ROOM, [PERSON, "@bob:home.test"]);
  // What was said before the first token is on record is history.
  await waitFor("the first token", () => herald.rows("SELECT 1 FROM channel_cursor WHERE channel = 'matrix'")[0]);
  if (failpoint !== undefined) {
    await herald.crash();
    await herald.restart({ failpoint });
  }
  return {
    scene,
    ask(round) {
      const root = matrix.inject(ROOM, "@bob:home.test", "m.room.topic", { topic: `thread ${round}` });
      matrix.say({ room: ROOM, thread: root, text: `question ${round}` });
      return root;
    },
    async expectOnly(thread, round) {
      const texts = (): string[] => matrix.messages(ROOM, thread).map(({ text }) => text);
      await waitFor("the whole answer", () => texts().includes(answerTo(`question ${round}`)), 60_000);
      await scene.settled();
      expect(texts()).toEqual([answerTo(`question ${round}`)]);
      expect(matrix.messages(ROOM, null)).toEqual([]);
    },
    [Symbol.asyncDispose]: async () => scene[Symbol.asyncDispose](),
  };
}

/** As if half a minute had passed while nobody was there. */
function age(stateDir: string): void {
  using db = new DatabaseSync(join(stateDir, "herald.db"));
  db.exec("UPDATE outbox SET sending_at = sending_at - 30000 WHERE state = 'sending'");
  const aged = "'begun:' || (CAST(substr(%, 7) AS INTEGER) - 30000)";
  db.exec(`UPDATE inbox SET draft = ${aged.replace("%", "draft")} WHERE draft LIKE 'begun:%'`);
  db.exec(`UPDATE outbox SET ref = ${aged.replace("%", "ref")} WHERE ref LIKE 'begun:%' AND state <> 'sent'`);
}

describe.concurrent("kill -9 while an answer is written", () => {
  it.each(POINTS)("[LV6][RC1][MX1] %s: one message, whole", { timeout: 120_000 * KILLS }, async (point) => {
    await using rig = await createRig({ failpoint: point });
    const { herald, matrix } = rig.scene;
    for (const round of rounds) {
      if (round > 0) {
        await herald.crash();
        await herald.restart({ failpoint: point });
      }
      const thread = rig.ask(round);
      await herald.exited();
      age(herald.stateDir);
      // It may have been down for longer than any server remembers.
      matrix.forgetTransactions();
      await herald.restart();
      await rig.expectOnly(thread, round);
    }
  });

  /** Killed while the server has, or has not, done what it was asked for and nobody heard of it. */
  const IN_CALLS: readonly [what: string, method: string, fault: Fault][] = [
    ["first words that the server never saw", "send", "hang"],
    ["first words that the server took", "send", "hang_after"],
    ["an edit that the server never saw", "edit", "hang"],
    ["an edit that the server took", "edit", "hang_after"],
    ["a sync whose answer nobody got", "sync", "hang_after"],
  ];
  it.each(IN_CALLS)("[LV6][RC1][MX1] in %s", { timeout: 120_000 * KILLS }, async (_what, method, fault) => {
    await using rig = await createRig();
    const { herald, matrix } = rig.scene;
    const count = (): number => matrix.calls.filter((call) => call.method === method).length;
    for (const round of rounds) {
      await rig.scene.connected();
      const before = count();
      matrix.faults.add(method, fault);
      const thread = rig.ask(round);
      await matrix.until(() => count() > before, "the call", 30_000);
      await herald.crash();
      age(herald.stateDir);
      await herald.restart();
      await rig.expectOnly(thread, round);
    }
  });

  /** What goes wrong besides, now and then. */
  const FAULTS: readonly [method: string, fault: Fault][] = [
    ["send", "drop_after"],
    ["send", "500_after"],
    ["send", { status: 429, errcode: "M_LIMIT_EXCEEDED", retry_after_ms: 300 }],
    ["edit", "truncate_after"],
    ["edit", "html_200"],
    ["sync", "drop_after"],
    ["sync", "500"],
    ["event", "500"],
    ["messages", "html"],
    ["react", "drop"],
  ];
  it("[RC1][RC3][MX1] at random moments, with faults of every kind: nothing lost, nothing repeated", {
    timeout: 120_000 + 60_000 * KILLS,
  }, async () => {
    await using rig = await createRig({ write: slowly });
    const { herald, matrix } = rig.scene;
    const threads = new Map<number, string>();
    for (let round = 0; round < 5 * KILLS; round++) {
      const [method, fault] = FAULTS[round % FAULTS.length] as (typeof FAULTS)[number];
      matrix.faults.add(method, fault, { skip: Math.floor(Math.random() * 3) });
      threads.set(round, rig.ask(round));
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 2_500));
      await beforeKill(herald);
      await herald.crash();
      if (Math.random() < 0.3) matrix.forgetTransactions();
      await herald.restart();
    }
    matrix.faults.clear();
    for (const [round, thread] of threads) await rig.expectOnly(thread, round);
  });
});

describe("a state that begins anew", () => {
  it("[DL1][MX1] answers get the same numbers again: a server that remembers them shows the new ones all the same", {
    timeout: 120_000,
  }, async () => {
    await using rig = await createRig();
    const { herald } = rig.scene;
    for (const round of [0, 1]) {
      if (round > 0) {
        await herald.stop();
        for (const name of readdirSync(herald.stateDir)) rmSync(join(herald.stateDir, name), { recursive: true });
        await herald.restart();
        await waitFor("the first token", () => herald.rows("SELECT 1 FROM channel_cursor WHERE channel = 'matrix'")[0]);
      }
      await rig.expectOnly(rig.ask(round), round);
    }
  });
});
