// `herald status`: does it run, and how does it stand. Exit code 1 when it does not.
import { channelWords } from "../app/status.ts";
import { findStateDir } from "../config/config.ts";
import { RUN_STATES } from "../core/run.ts";
import type { BoardRow, BudgetLine } from "../web/board.ts";
import type { NodeLine, PageStatus } from "../web/live.ts";
import type { PeopleView } from "../web/people-api.ts";
import { type Call, EXIT, isSet, UsageError } from "./command.ts";
import { findGateway, type Gateway, GatewayAway } from "./gateway.ts";
import { line } from "./run-lines.ts";

/** What a page is told when it opens; a gateway of another version may leave some out. */
interface Present {
  status?: PageStatus;
  runs?: readonly BoardRow[];
  pairing?: PeopleView;
  nodes?: readonly NodeLine[];
  budgets?: readonly BudgetLine[];
  questions?: { readonly total: number };
}

const PRESENT_MS = 8_000;

export async function status(call: Call): Promise<number> {
  const { terminal } = call;
  if (call.words.length > 0) throw new UsageError("status takes no further words.");
  const stateDir = findStateDir({ env: terminal.env, cwd: terminal.cwd });
  try {
    const gateway = findGateway(terminal);
    const report = reportOf(await presentOf(gateway), { origin: gateway.origin, stateDir });
    if (isSet(call, "json")) terminal.say(JSON.stringify(report));
    else for (const text of linesOf(report, call.version)) terminal.say(text);
    return EXIT.fine;
  } catch (error) {
    if (!(error instanceof GatewayAway)) throw error;
    const { isRunning: running } = error;
    if (isSet(call, "json")) terminal.say(JSON.stringify({ running, stateDir, reason: error.message }));
    else terminal.say(running ? error.message : `${error.message} herald start starts it.`);
    return running ? EXIT.fine : EXIT.failed;
  }
}

export async function presentOf(gateway: Gateway): Promise<Present> {
  const found: Record<string, unknown> = {};
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(), PRESENT_MS);
  try {
    for await (const { name, data } of gateway.events(over.signal)) {
      found[name] = data;
      // The last it tells.
      if (name === "questions") return found;
    }
  } finally {
    clearTimeout(timer);
    over.abort();
  }
  throw new Error(
    `The gateway at ${gateway.origin} runs but did not say within ${PRESENT_MS / 1000} s how it stands: it is busy, or ends just now.`,
  );
}

type Report = ReturnType<typeof reportOf>;

/** What --json promises. */
function reportOf({ status, runs = [], pairing, nodes = [], budgets = [], questions }: Present, at: { origin: string; stateDir: string }) {
  const counts = RUN_STATES.map((state) => [state, runs.filter((run) => run.state === state).length] as const);
  return {
    running: true,
    ...at,
    ...{ version: status?.version ?? null, model: status?.model ?? null, problem: status?.problem ?? null },
    channels: (status?.channels ?? []).map(({ name, state, detail }) => ({ name, state, detail })),
    runs: Object.fromEntries(counts.filter(([, count]) => count > 0)),
    needsYou: {
      questions: questions?.total ?? 0,
      pairing: pairing?.waiting.length ?? 0,
      /** Those of runs can be answered from here; what a conversation asks, in its chat or on the page. */
      asking: runs.filter(({ isAsking }) => isAsking).map(({ id }) => id),
      undelivered: runs.filter(({ delivery }) => delivery === "blocked").length,
    },
    budgets: budgets.map(({ name, usd, tokens, share }) => ({ name, usd, tokens, share })),
    nodes: nodes.map(({ name, role, version, isFront, turns, runs: count }) => ({ name, role, version, isFront, turns, runs: count })),
  };
}

function linesOf(report: Report, ours: string): string[] {
  const { origin, stateDir, version, model, problem, channels, runs, needsYou, budgets, nodes } = report;
  const [asking] = needsYou.asking;
  const needs = [
    needsYou.questions === 0
      ? ""
      : `${needsYou.questions} asked (${asking === undefined ? "answer in the chat or on the page" : `herald runs answer ${asking.slice(0, 8)} …`})`,
    needsYou.pairing === 0 ? "" : `${needsYou.pairing} to let in (herald pair)`,
    needsYou.undelivered === 0 ? "" : `${needsYou.undelivered} not delivered (herald runs list)`,
  ].filter((part) => part !== "");
  const counts = Object.entries(runs).map(([state, count]) => `${count} ${state}`);
  const other = version === null || version === ours ? "" : ` (this command is ${ours}: restart the gateway to run that)`;
  return [
    `Herald:     ${version ?? "of an older version"} at ${origin}${other}`,
    `State:      ${stateDir}`,
    `Model:      ${model === null ? "unknown" : line(model)}`,
    ...(problem === null ? [] : [`Problem:    ${line(problem)}`]),
    ...channels.filter(({ state }) => state !== "off").map((one) => `Channel:    ${line(`${one.name}: ${channelWords(one)}`)}`),
    `Runs:       ${counts.length === 0 ? "none" : counts.join(", ")}`,
    `Needs you:  ${needs.length === 0 ? "nothing" : needs.join(", ")}`,
    ...budgets.map(({ name, usd, tokens }) => `Spent:      ${[usd, tokens].filter((part) => part !== null).join(", ")} (${name})`),
    ...nodes.map(
      ({ name, role, version: theirs, turns, runs: count }) =>
        `Machine:    ${line(name)}, ${role}, ${theirs}, ${turns} turns and ${count} runs at work`,
    ),
  ];
}
