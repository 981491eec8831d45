// What a provider's cache can serve, and what announcing costs: requests of the real process as the provider received them, in a
// conversation of ten turns with spawns, and of a sub-agent with a long result.
import { randomUUID } from "node:crypto";
import { calls, child, plan, repeated, spawns, whoAsks } from "../support/brain.ts";
import { stableShare, textOf } from "../support/prefix.ts";
import { createScene, type Scene } from "../support/scene.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { startCheckout } from "./checkout.ts";
import { atMost, type Row, type Topic, told, withFolder } from "./measure.ts";

const TURNS = 10;
const LEAST_SHARE = 0.95;
const RESULT_CHARS = 70_000;
const MOST_TO_ANNOUNCE = 0.05;
/** As providers' price lists stand to each other: what is written beside what is read, and what is read from the cache. */
const WRITTEN = 5;
const CACHED = 0.1;
/** Of what they were before budgets, groups and checks. */
const MOST_TOOLS = 1.3;

type Call = Scene["model"]["calls"][number];

export const prompts: Topic = { name: "prompts", run: ({ against }) => withFolder((folder) => measurePrompts(folder, against)) };

async function measurePrompts(folder: string, against: string | null): Promise<Row[]> {
  await using scene = await createScene();
  return [...(await measurePrefix(scene)), await measureAnnouncing(scene), await measureTools(scene, folder, against)];
}

/** As they are sent: what a provider reads of them before each answer. */
async function measureTools(scene: Scene, folder: string, against: string | null): Promise<Row> {
  const measure = "definitions of all tools of a main session, as sent";
  const own = toolsOf(scene.model.calls.find((call) => whoAsks(call) === "main"));
  if (against === null) return told(measure, `${own.bytes} bytes`, `${own.count} tools, default settings`);
  const other = await startCheckout(against, folder, scriptedConfig(scene.model.url));
  try {
    const before = scene.model.calls.length;
    await other.post(randomUUID(), "How are you?");
    await other.said(1);
    const theirs = toolsOf(scene.model.calls[before]);
    const detail = `${own.bytes} bytes (${own.count} tools) against ${theirs.bytes} (${theirs.count})`;
    return atMost(`${measure}, against the code before`, own.bytes / theirs.bytes, MOST_TOOLS, detail);
  } finally {
    await other.stop();
  }
}

function toolsOf(call: Call | undefined): { readonly bytes: number; readonly count: number } {
  if (call === undefined) throw new Error("no main session asked the model anything");
  return { bytes: Buffer.byteLength(JSON.stringify(call.body.tools)), count: call.tools.length };
}

/** Children that end and children still at work when the next turn begins: what used to change the prompt. */
async function measurePrefix(scene: Scene): Promise<Row[]> {
  const chat = scene.chat();
  await chat.ask("FIRST");
  for (let n = 1; n < TURNS; n++) {
    const held = child(`slow ${n}`, [calls(["list", { path: "." }]), { text: "late", hold: `slow ${n}` }]);
    await chat.act([spawns(child(`quick ${n}`, `found ${n}`), held), calls(["list", { path: "." }])]);
    await chat.announced(`quick ${n}`);
    scene.release(`slow ${n - 1}`);
    if (n > 1) await chat.announced(`slow ${n - 1}`);
  }
  scene.release(`slow ${TURNS - 1}`);
  await chat.announced(`slow ${TURNS - 1}`);
  const main = scene.model.calls.filter((call) => whoAsks(call) === "main");
  const children = Map.groupBy(
    scene.model.calls.filter((call) => whoAsks(call) !== "main"),
    (call) => call.messages[0]?.text,
  );
  const below = [...children.values()].flatMap((list) => sharesOf(list));
  return [
    shareRow(`request that begins as the one before ended, ${TURNS} turns with spawns`, sharesOf(main)),
    shareRow("the same of sub-agents, announce step included", below),
  ];
}

const sharesOf = (list: readonly Call[]): number[] => list.slice(1).map((call, n) => stableShare(list[n] as Call, call));

function shareRow(measure: string, shares: readonly number[]): Row {
  const least = Math.min(...shares);
  return {
    measure,
    value: `${(least * 100).toFixed(1)} %`,
    goal: `≥ ${LEAST_SHARE * 100} %`,
    met: least >= LEAST_SHARE,
    detail: `of the bytes sent before, the least of ${shares.length} requests`,
  };
}

async function measureAnnouncing(scene: Scene): Promise<Row> {
  const chat = scene.chat();
  const word = "finding ";
  const work = [calls(["list", { path: "." }]), { text: repeated(RESULT_CHARS / word.length, word) }];
  const task = { task: plan(work, { text: "ANNOUNCE_AS_IS" }), label: "long", briefing: "LONG-RESULT" };
  const before = scene.model.calls.length;
  await chat.act([spawns(task)]);
  await chat.announced("long");
  const list = scene.model.calls.slice(before).filter((call) => whoAsks(call) !== "main");
  const [announce, ...more] = list.filter((call) => whoAsks(call) === "announce");
  if (announce === undefined || more.length > 0) throw new Error(`${1 + more.length} announce steps instead of one`);
  const costs = list.map((call, n) => costOf(call, list[n - 1]));
  const wroteResult = RESULT_CHARS * WRITTEN;
  const produced = costs.slice(0, -1).reduce((sum, cost) => sum + cost, wroteResult);
  const announced = (costs.at(-1) ?? 0) + "ANNOUNCE_AS_IS".length * WRITTEN;
  const share = announced / produced;
  return {
    measure: "announcing a result of 70 000 characters, beside producing it",
    value: `${(share * 100).toFixed(1)} %`,
    goal: `≤ ${MOST_TO_ANNOUNCE * 100} %`,
    met: share <= MOST_TO_ANNOUNCE,
    detail: `in tokens, what is written counted ${WRITTEN} times and what the cache can serve ${CACHED} times`,
  };
}

/** Of what is read; in characters, which cancel out. */
function costOf(call: Call, before: Call | undefined): number {
  const size = textOf(call).length;
  const cached = before === undefined ? 0 : stableShare(before, call) * textOf(before).length;
  return size - cached + cached * CACHED;
}
