// The scripted model of a chaos run. Stateless: what it says follows from the newest marked words in the request alone, so
// a turn that is run again after a kill gets the same answer. Every reply names the message it answers and which piece of
// how many it is (`re m17 1/1`), every result names its child and the words it followed (`res m17.2 m17 1/1`).
import { whoAsks } from "../support/brain.ts";
import type { FakeMessage, FakeRequest, Respond, Script } from "../support/fake-model-server.ts";
import { hash } from "../support/random.ts";
import { type ChildKind, type ChildPlan, groupOf, type Said } from "./history.ts";

/** `[m17] spawn quick:keep,slow:delete`, `[m17] group quick:keep,slow:keep:after`; what a person says, and what is sent to a child (`[m40] more`). */
const MARKED = /\[(m\d+)\] (\w+)(?: (\S+))?/;
/** `{m17.2} quick`: a child's task; `{m17.2.1} slow` that of what it sends out itself, `{g17.2} quick` that of one of a group. */
const TASK = /\{([mg]\d+(?:\.\d+){1,2})\} (\w+)/;
/** What the gateway wakes the agent with. */
const WOKEN = /the group "(g\d+)" of sub-agents you sent out is complete .*\]$/;

const LONG_PIECES = 40;
const LONG_FILLER = "and so on ".repeat(33);
/** `hang` ends by this limit. */
const HANG_SECONDS = 1;

export const wordsOf = (said: Pick<Said, "id" | "kind" | "children">): string => {
  const children = said.children.map(({ kind, cleanup, isAfter }) => `${kind}:${cleanup}${isAfter === true ? ":after" : ""}`).join(",");
  return `[${said.id}] ${said.kind}${children === "" ? "" : ` ${children}`}`;
};

export interface Door {
  /** Resolves when as many wait as are wanted, or after a while. */
  enter(lane: "main" | "subagent"): Promise<void>;
  /** The most that ever waited at once. */
  most(lane: "main" | "subagent"): number;
}

export function createDoor(wanted: { main: number; subagent: number }, patienceMs: number): Door {
  const lanes = { main: createCrowd(wanted.main, patienceMs), subagent: createCrowd(wanted.subagent, patienceMs) };
  return { enter: (lane) => lanes[lane].enter(), most: (lane) => lanes[lane].most() };
}

function createCrowd(wanted: number, patienceMs: number) {
  let inside = 0;
  let most = 0;
  const full = Promise.withResolvers<void>();
  return {
    async enter(): Promise<void> {
      inside++;
      most = Math.max(most, inside);
      if (inside >= wanted) full.resolve();
      let timer: NodeJS.Timeout | undefined;
      await Promise.race([full.promise, new Promise<void>((resolve) => (timer = setTimeout(resolve, patienceMs)))]);
      clearTimeout(timer);
      inside--;
    },
    most: () => most,
  };
}

/** What a script knows besides the request. */
export interface Stage {
  readonly door: Door;
  /** Words the model lets slip wherever it can, the same for the same subject. */
  slip(subject: string): string;
}

export const createScript =
  (stage: Stage): Respond =>
  async (request) => {
    const script = await scriptFor(request, stage);
    return { usage: { input: 100, output: 20 }, ...script };
  };

function scriptFor(request: FakeRequest, stage: Stage): Script | Promise<Script> {
  switch (whoAsks(request)) {
    case "announce":
      return announce(request, stage);
    case "child":
      return child(request, stage);
    case "main":
      return main(request, stage);
  }
}

/** What a requester is told about a child quotes the child. */
const isNote = (message: FakeMessage): boolean => message.text.startsWith("[Sub-agent");
const isFrom = (message: FakeMessage, pattern: RegExp): boolean =>
  message.role === "user" && !isNote(message) && pattern.test(message.text);

async function main(request: FakeRequest, { door, slip }: Stage): Promise<Script> {
  const at = request.messages.findLastIndex((message) => isFrom(message, MARKED));
  const woken = WOKEN.exec(request.messages.slice(at + 1).findLast(({ role }) => role === "user")?.text ?? "")?.[1];
  if (woken !== undefined) return { text: `woken ${woken} 1/1 ${slip(woken)}`, delayMs: hash(woken) % 300 };
  const [, id = "?", kind = "say", args = ""] = MARKED.exec(request.messages[at]?.text ?? "") ?? [];
  const hasResults = request.messages.slice(at + 1).some((message) => message.role === "tool");
  const delayMs = hash(`${id} ${hasResults}`) % 120;
  if (kind === "tool" && !hasResults) return { ...look(slip(id)), delayMs };
  if (kind === "spawn" && !hasResults)
    return { text: "", toolCalls: parseChildren(id, args).map((plan, n) => spawnCall(plan, n, slip(plan.label))), delayMs };
  if (kind === "group" && !hasResults) return { text: "", toolCalls: [groupCall(id, parseChildren(groupOf(id), args), slip)], delayMs };
  if (kind === "ask" && !hasResults) return { ...asks(id, slip(id)), delayMs };
  if (kind === "door") await door.enter("main");
  if (kind === "long") return { text: longReply(id), delayMs };
  return { text: `re ${id} 1/1 ${slip(id)}`, delayMs: kind === "slow" ? 400 + (hash(id) % 800) : delayMs };
}

/** What is asked names who asks, and so does each choice: nothing else tells a wrong answer from the right one. */
const asks = (label: string, slipped: string): Script => ({
  text: "",
  toolCalls: [
    {
      ...{ name: "ask", id: "q" },
      args: {
        question: `q ${label} ${slipped}`,
        options: optionsOf(label),
        timeoutSeconds: hash(label) % 4 === 0 ? 3 : 12 + (hash(label) % 10),
      },
    },
  ],
});
export const optionsOf = (label: string): string[] => [`${label} red`, `${label} blue`];

/** Its content names who writes it: so does the question whether it may. */
const writes = (label: string): Script => ({
  text: "",
  toolCalls: [{ name: "write", id: "y", args: { path: `${label}.txt`, content: `q ${label}` } }],
});
/** What people choose from when it asks for a yes. "Always" would keep all others of the chat from asking. */
export const VERDICTS = ["Yes", "Yes for this run", "No"];

const look = (slipped: string): Script => ({ text: `looking ${slipped}`, toolCalls: [{ name: "list", args: { path: `./${slipped}` } }] });

const longReply = (id: string): string =>
  Array.from({ length: LONG_PIECES }, (_, n) => `re ${id} ${n + 1}/${LONG_PIECES} ${LONG_FILLER}`.trim()).join("\n\n");

const parseChildren = (id: string, args: string): ChildPlan[] =>
  args.split(",").map((word, n) => {
    const [kind, cleanup, after] = word.split(":");
    const plan = { label: `${id}.${n + 1}`, kind: kind as ChildKind, cleanup: cleanup as ChildPlan["cleanup"] };
    return after === undefined ? plan : { ...plan, isAfter: true };
  });

const spawnCall = ({ label, kind, cleanup }: ChildPlan, n: number, slipped: string) => ({
  name: "sessions_spawn",
  id: `c${n}`,
  args: {
    task: `{${label}} ${kind} ${slipped}`,
    label,
    cleanup,
    briefing: slipped,
    ...(kind === "hang" ? { runTimeoutSeconds: HANG_SECONDS } : {}),
  },
});

/** All of them in one call; what becomes of their transcripts is said for all. */
const groupCall = (id: string, plans: readonly ChildPlan[], slip: Stage["slip"]) => {
  const tasks = plans.map((plan, n) => {
    const { cleanup: _, ...args } = spawnCall(plan, n, slip(plan.label)).args;
    return plan.isAfter === true ? { ...args, after: [plans[0]?.label] } : args;
  });
  // biome-ignore lint/suspicious/noThenProperty: the tool's word, and nobody awaits it.
  const group = { name: groupOf(id), wait: WAITS[hash(`wait ${id}`) % WAITS.length], announce: "together", then: "wake" };
  return { name: "sessions_spawn", id: "g", args: { tasks, group, cleanup: plans[0]?.cleanup } };
};
const WAITS = ["all", "all", "any", 2];

const BELOW: readonly ChildKind[] = ["slow", "quick", "quick", "ask"];

interface Errand {
  readonly label: string;
  readonly kind: string;
  /** The newest words it was told: the message that spawned it, or a later one that was sent to it. */
  readonly token: string;
  /** What its calls gave since it was told that. */
  readonly results: readonly FakeMessage[];
}

function errandOf(request: FakeRequest): Errand {
  const [, label = "?", kind = "quick"] = TASK.exec(request.messages.find((message) => isFrom(message, TASK))?.text ?? "") ?? [];
  const at = request.messages.findLastIndex((message) => isFrom(message, MARKED));
  const sent = MARKED.exec(request.messages[at]?.text ?? "")?.[1];
  const results = request.messages.slice(at + 1).filter((message) => message.role === "tool");
  // What it was told later it simply answers.
  return { label, kind: sent === undefined ? kind : "quick", token: sent ?? label.split(".")[0] ?? "?", results };
}

async function child(request: FakeRequest, { door, slip }: Stage): Promise<Script> {
  const { label, kind, token, results } = errandOf(request);
  const hasResults = results.length > 0;
  const delayMs = hash(`${label} ${token} ${hasResults}`) % 250;
  if (kind === "hang") return { hang: "before-head" };
  if (kind === "fail") return { status: 400, message: `told to fail ${slip(label)}`, delayMs };
  if (kind === "tool" && !hasResults) return { ...look(slip(label)), delayMs };
  if (kind === "ask" && !hasResults) return { ...asks(label, slip(label)), delayMs };
  if (kind === "approve" && !hasResults) return { ...writes(label), delayMs };
  if ((kind === "parent" || kind === "wait") && !hasResults) {
    const below: ChildPlan = { label: `${label}.1`, kind: BELOW[hash(label) % BELOW.length] ?? "quick", cleanup: "keep" };
    return { text: "", toolCalls: [spawnCall(below, 0, slip(label))], delayMs };
  }
  if (kind === "wait" && results.length === 1) {
    const [, id = "last"] = /"runId":"([^"]+)"/.exec(results[0]?.text ?? "") ?? [];
    return { text: "", toolCalls: [{ name: "subagents", id: "w", args: { action: "wait", ids: [id], timeoutSeconds: 300 } }], delayMs };
  }
  if (kind === "door") await door.enter("subagent");
  return { text: `res ${label} ${token} 1/1 ${slip(label)}`, delayMs: kind === "slow" ? 500 + (hash(label) % 1_000) : delayMs };
}

function announce(request: FakeRequest, { slip }: Stage): Script {
  const words = request.messages.findLast((message) => message.role === "assistant" && message.text !== "")?.text ?? "";
  if (errandOf(request).kind === "skip") return { text: "ANNOUNCE_SKIP" };
  return { text: `Result:\n${words}\n\nNotes:\n- ${slip(words)}`, delayMs: hash(words) % 100 };
}
