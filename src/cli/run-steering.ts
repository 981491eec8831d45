// `herald runs stop|send|spawn|rerun|answer`: over the gateway alone, because only it may write. A gateway of before has no routes for
// steering; there the command is posted into the chat of the page that asked, as the page did.
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { isUuid } from "../core/ids.ts";
import { visibleText } from "../core/visible-text.ts";
import { type Call, EXIT, isSet, textOf, UsageError } from "./command.ts";
import { findGateway, type Gateway, Refused } from "./gateway.ts";
import { overGateway, type RunRecord } from "./run-reader.ts";
import { findRun, targetOf, textBehind } from "./run-target.ts";

const LOOK_MS = 150;
const ANSWER_MS = 20_000;

export const stop = (call: Call): Promise<number> =>
  steer(call, targetOf(call, false), { route: "stop", body: {}, command: (id) => `/subagents stop ${id}` });

export function send(call: Call): Promise<number> {
  const target = targetOf(call, true);
  const text = textBehind(call, "What to tell it");
  return steer(call, target, { route: "send", body: { text }, command: (id) => `/subagents send ${id} ${text}` });
}

export function rerun(call: Call): Promise<number> {
  const target = targetOf(call, true);
  const model = textOf(call, "model");
  const task = call.words.slice(1).join(" ").trim();
  const body = { key: randomUUID(), ...(model === undefined ? {} : { model }), ...(task === "" ? {} : { task }) };
  const words = [model === undefined ? "" : `model=${model}`, task].filter((word) => word !== "").join(" ");
  return steer(call, target, { route: "again", body, command: (id) => `/subagents rerun ${id} ${words}`.trim() });
}

export async function spawn(call: Call): Promise<number> {
  const task = call.words.join(" ").trim();
  if (task === "") throw new UsageError("What to do is missing.");
  const chat = textOf(call, "chat") ?? "main";
  if (chat !== "main" && !isUuid(chat)) throw new UsageError("--chat is main, or the id of a chat of the page.");
  const gateway = findGateway(call.terminal);
  const text = await command(gateway, chat, `/subagents spawn ${task}`, call.terminal.ended);
  const shortId = SENT_OUT.exec(text)?.[1];
  // Who was refused has an answer in the chat like anybody; only here it is a failure.
  if (shortId === undefined) throw new Error(visibleText(text));
  const { run } = await find(gateway, shortId);
  return tell(call, run.id, text.replace(/ here\.$/, chat === "main" ? " in the main chat of the page." : " in that chat."));
}

/** What the gateway says of a spawn that it took. */
const SENT_OUT = /\(([0-9a-f]{8})\)\. Its result will be announced here\.$/;

export async function answer(call: Call): Promise<number> {
  const target = targetOf(call, true);
  const text = textBehind(call, "The answer");
  const gateway = findGateway(call.terminal);
  const { run, questions = [] } = await find(gateway, target);
  const [question] = questions;
  if (question === undefined) throw new Error("It asks nothing.");
  const option = /^[1-9]$/.test(text) && Number(text) <= question.options.length ? Number(text) : undefined;
  const given = question.kind === "approve" ? verdictOf(text) : option === undefined ? { answer: text } : { option };
  const { text: said } = await gateway.post<{ text: string }>(`/api/questions/${question.id}/answer`, given);
  return tell(call, run.id, said);
}

/** A yes has no conditions: whatever else is said is a no with its reason. */
function verdictOf(text: string): { verdict: string; reason?: string } {
  const word = text.toLowerCase();
  if (word === "yes" || word === "run" || word === "always" || word === "no") return { verdict: word };
  return { verdict: "no", reason: text.replace(/^no[,:]?\s+/i, "") };
}

interface Steering {
  readonly route: string;
  readonly body: unknown;
  command(id: string): string;
}

async function find(gateway: Gateway, target: string): Promise<RunRecord> {
  const reader = overGateway(gateway);
  const found = await reader.find(await findRun(reader, target));
  if (found === null) throw new Error("There is no such run.");
  return found;
}

async function steer(call: Call, target: string, { route, body, command: lineFor }: Steering): Promise<number> {
  const gateway = findGateway(call.terminal);
  const { run } = await find(gateway, target);
  try {
    const { text, runId = run.id } = await gateway.post<{ text: string; runId?: string }>(`/api/runs/${run.id}/${route}`, body);
    return tell(call, runId, text);
  } catch (error) {
    // The run is there: it is the route that is not.
    if (!(error instanceof Refused) || error.status !== 404) throw error;
  }
  if (run.chat === null) throw new Error(`It was asked for on ${run.origin}: write ${lineFor(run.shortId)} there.`);
  return tell(call, run.id, await command(gateway, run.chat, lineFor(run.id), call.terminal.ended));
}

/** Posts a command line as if a button had been pressed; resolves with its answer. */
async function command(gateway: Gateway, chat: string, text: string, ended: AbortSignal): Promise<string> {
  const id = randomUUID();
  await gateway.post(`/api/chats/${chat}/messages`, { id, text, kind: "button" });
  for (const until = performance.now() + ANSWER_MS; performance.now() < until; ) {
    const { messages } = await gateway.get<{ messages: { answers?: string; text?: string }[] }>(`/api/chats/${chat}/messages?as=text`);
    const said = messages.find(({ answers }) => answers === id);
    if (said !== undefined) return said.text ?? "";
    await delay(LOOK_MS, undefined, { signal: ended });
  }
  throw new Error("The gateway took it but has not answered yet: it is busy. herald runs list shows what becomes of it.");
}

/** `id`: of the run that was meant, or that began. */
function tell(call: Call, id: string, text: string): number {
  const { terminal } = call;
  if (isSet(call, "json")) terminal.say(JSON.stringify({ id, text }));
  else terminal.say(terminal.broken(visibleText(text)));
  return EXIT.fine;
}
