// /subagents list|all|stop|log|info|send|answer|spawn|budget|rerun|diff|trace|brief|retry, for the sub-agents of the chat it is typed in. Everything it
// changes is in the same transaction as its answer; what it shows comes from subagents/overview.ts.

import type { Group } from "../core/group.ts";
import { shortId } from "../core/ids.ts";
import { isUnfinished, type Run } from "../core/run.ts";
import { transcriptOfRun } from "../subagents/deps.ts";
import { renderBrief } from "../subagents/documents/brief-params.ts";
import { infoText, listText } from "../subagents/overview.ts";
import { oneLine, quotable } from "../subagents/quoting.ts";
import { currentRuns, findTarget, isRunsOwn, needyFirst, runsOf } from "../subagents/targets.ts";
import { answeredByIfReadable, DEFAULT_LOG, logText } from "../subagents/transcript-view.ts";
import { diff, rerun } from "./again-actions.ts";
import { answer } from "./answer-action.ts";
import { budget, limitsOf } from "./budget-action.ts";
import { type Answer, type Command, type CommandContext, plural } from "./commands.ts";
import { answerTo, readPressed, stopPressed } from "./pressing.ts";
import { type Action, asItIs, name, type SubagentCommandDeps, splitFirst, withTarget } from "./subagent-action.ts";
import { threadHint } from "./threads.ts";

const ACTIONS: ReadonlyMap<string, { usage: string; summary: string; run: Action }> = new Map([
  [
    "list",
    { usage: "list", summary: "this chat's sub-agents, numbered", run: async (deps, context, rest) => list(deps, context, rest === "all") },
  ],
  ["all", { usage: "all", summary: "also those of earlier starts", run: async (deps, context) => list(deps, context, true) }],
  ["stop", { usage: "stop <id|#|group|all>", summary: "end one and everything below it, a group, or all", run: stop }],
  ["log", { usage: "log <id|#> [limit] [tools]", summary: "its last messages", run: log }],
  ["info", { usage: "info <id|#>", summary: "everything on record", run: info }],
  ["send", { usage: "send <id|#> <message>", summary: "tell it something; a finished one goes on", run: send }],
  ["answer", { usage: "answer <id|#> <text>", summary: "answer what it asks", run: answer }],
  ["spawn", { usage: "spawn <task>", summary: "send one out yourself", run: spawn }],
  ["budget", { usage: "budget <id|#> +0.50|+20k", summary: "raise what it may spend; one that ended for want of it goes on", run: budget }],
  [
    "rerun",
    { usage: "rerun <id|#> [model=…] [task]", summary: "the same once more, with another model or task if you say so", run: rerun },
  ],
  ["diff", { usage: "diff <id|#> <id|#>", summary: "two of them side by side", run: diff }],
  ["trace", { usage: "trace <id|#>", summary: "who did what when, sub-agents below it included", run: trace }],
  ["brief", { usage: "brief <id|#> [clear]", summary: "what it was briefed with and by whom; clear takes it back", run: brief }],
  ["retry", { usage: "retry <id|#>", summary: "send a blocked announcement again", run: retry }],
]);

export function createSubagentsCommand(deps: SubagentCommandDeps): Command {
  return {
    name: "subagents",
    usage: "/subagents [list|all|stop|log|info|send|answer|spawn|budget|rerun|diff|trace|brief|retry]",
    summary: "watch and steer the sub-agents of this chat; /subagents help says how",
    actions: [...ACTIONS].map(([name, { usage, summary }]) => ({ name, usage, summary })),
    async run(context) {
      const [word, rest] = splitFirst(context.args);
      const action = ACTIONS.get(word === "" ? "list" : word.toLowerCase());
      return action === undefined ? { text: answerTo(context.inbound, help()) } : await action.run(deps, context, rest.trim());
    },
  };
}

const help = (): string =>
  [
    "**/subagents**",
    ...[...ACTIONS.values()].map((action) => `- \`/subagents ${action.usage}\` ${action.summary}`),
    "",
    "A target is a number of the last list, `last`, the start of a run id, a label (in quotes when it has blanks) or a session key.",
  ].join("\n");

function list(deps: SubagentCommandDeps, context: CommandContext, all: boolean): Answer {
  return {
    act: async (tx) => {
      const every = await runsOf(deps.runs, context.sessionKey);
      const boots = await deps.nodes.alive();
      const runs = needyFirst(all ? every : currentRuns(every, boots));
      await deps.listings.save(
        tx,
        context.sessionKey,
        runs.map((run) => run.id),
      );
      const title = all ? "Subagents (current session, all)" : "Subagents (current session)";
      const leftOut = every.length - runs.length;
      const listed = { runs, now: deps.clock.now(), boots, title, leftOut, groups: await groupsOf(deps, runs) };
      const queued = runs.filter((run) => run.state === "queued").map((run) => run.id);
      const places = await deps.lane.positions(queued);
      const unfinished = runs.filter((run) => isUnfinished(run.state)).map((run) => run.id);
      const stranded = (await deps.lane.stranded?.(unfinished)) ?? new Map<string, string>();
      const waitsFor = (run: Run): string | null => stranded.get(run.id) ?? null;
      const limits = await limitsOf(deps, runs);
      const limitOf = (run: Run): string | null => limits.get(run.id) ?? null;
      const text = listText({ ...listed, position: (run) => places.get(run.id) ?? null, limitOf, waitsFor });
      const hint = await threadHint(deps, context, "subagents");
      return hint === null ? text : `${text}\n\n${hint}`;
    },
  };
}

/** Those that any of these belongs to, newest first. */
async function groupsOf({ groups }: SubagentCommandDeps, runs: readonly Run[]): Promise<Group[]> {
  const found: Group[] = [];
  for (const id of new Set(runs.flatMap(({ groupId }) => groupId ?? []))) {
    const group = await groups.get(id);
    if (group !== null) found.push(group);
  }
  return found;
}

async function stop(deps: SubagentCommandDeps, context: CommandContext, rest: string): Promise<Answer> {
  const pressed = readPressed(rest);
  if (pressed !== null) return stopPressed(deps, context.sessionKey, pressed);
  if (rest.toLowerCase() === "all") {
    return {
      act: async (tx) => {
        const stopped = await deps.steering.stopBelow(tx, context.sessionKey, "by /subagents stop");
        return `⚙️ Stopped ${plural(stopped.length, "sub-agent")}.`;
      },
    };
  }
  const group = await findGroup(deps, context.sessionKey, rest);
  // One that is over stands before nobody: a run of its name may be at work, and whoever stops that is not told that it has ended.
  if (group?.state === "open" || (group !== null && "problem" in (await findTarget(deps, context.sessionKey, rest))))
    return stopGroup(deps, group);
  return withTarget(deps, context, rest, async (found) => ({
    act: async (tx) => {
      const run = await asItIs(deps, found);
      if (!isUnfinished(run.state)) {
        const isUnsaid = await deps.steering.leaveUnsaid(tx, run);
        return `${name(run)} has already ended (${run.state})${isUnsaid ? "; its announcement had not been sent yet and is left out" : ""}.`;
      }
      const stopped = await deps.steering.stop(tx, [run], "by /subagents stop");
      return `⚙️ Stopped ${plural(stopped.length, "sub-agent")}: ${stopped.map(name).join(", ")}.`;
    },
  }));
}

/** The newest of that name; a run of the same name is meant by its number or id, which no group can be called by. */
async function findGroup({ groups }: SubagentCommandDeps, sessionKey: string, target: string): Promise<Group | null> {
  const wanted = target
    .replace(/^"(.*)"$/, "$1")
    .trim()
    .toLowerCase();
  if (isRunsOwn(wanted)) return null;
  const known = await groups.listOf(sessionKey, MAX_GROUPS);
  return known.find(({ name: of }) => of.toLowerCase() === wanted) ?? null;
}

const MAX_GROUPS = 100;

const stopGroup = (deps: SubagentCommandDeps, group: Group): Answer => ({
  act: async (tx) => {
    const stopped = await deps.steering.stop(tx, await deps.runs.listGroup(group.id), "by /subagents stop");
    if (stopped.length === 0) return `The group "${oneLine(group.name)}" has ended already.`;
    return `⚙️ Stopped the group "${oneLine(group.name)}": ${plural(stopped.length, "sub-agent")}.`;
  },
});

async function log(deps: SubagentCommandDeps, context: CommandContext, rest: string): Promise<Answer> {
  const [target, options] = splitFirst(rest);
  const words = options.toLowerCase().split(/\s+/);
  const tools = words.includes("tools");
  const limit = Number(words.find((word) => /^\d+$/.test(word)) ?? DEFAULT_LOG);
  return withTarget(deps, context, target, async (run) => ({
    text: `🧭 Log of ${name(run)}, ${run.state}\n\n${await logText(deps.transcripts, run, { limit, tools })}`,
  }));
}

async function info(deps: SubagentCommandDeps, context: CommandContext, rest: string): Promise<Answer> {
  return withTarget(deps, context, rest, async (found) => {
    const why = (await deps.lane.stranded?.([found.id]))?.get(found.id);
    const run = why === undefined ? found : { ...found, doing: why };
    const text = infoText({
      run,
      now: deps.clock.now(),
      transcript: deps.transcripts.path(transcriptOfRun(run)),
      archiveDue: deps.archiver.dueAt(run),
      position: (await deps.lane.positions([run.id])).get(run.id) ?? null,
      answeredBy: await answeredByIfReadable(deps.transcripts, run),
      limit: (await limitsOf(deps, [run])).get(run.id) ?? null,
      group: (await groupsOf(deps, [run]))[0] ?? null,
    });
    return { text };
  });
}

async function send(deps: SubagentCommandDeps, context: CommandContext, rest: string): Promise<Answer> {
  const [target, message] = splitFirst(rest);
  return withTarget(deps, context, target, async (run) => {
    if (message === "") return { text: "What should it be told? `/subagents send <id|#> <message>`" };
    return {
      act: async (tx) => {
        const answer = await deps.steering.send(tx, run, context.inbound.sender.name ?? context.inbound.sender.id, message);
        if (typeof answer === "object") return answer.refused;
        if (answer === "running") return `📨 Sent to ${name(run)}; it reads it at its next step.`;
        if (answer === "queued") return `📨 Sent to ${name(run)}; it is still queued and reads it when it starts.`;
        return `📨 ${name(run)} had ended; it goes on with your message in the same session and will announce again.`;
      },
    };
  });
}

async function spawn(deps: SubagentCommandDeps, context: CommandContext, task: string): Promise<Answer> {
  if (task === "") return { text: "What should it do? `/subagents spawn <task>`" };
  return {
    act: async (tx) => {
      const answer = await deps.spawn.in(tx, await deps.requester(tx, context), { task });
      if (answer.status !== "accepted") return `⚠️ ${answer.error}`;
      return `🧭 Sent out "${answer.label}" (${shortId(answer.runId)}). Its result will be announced here.`;
    },
  };
}

const MAX_TRACE = 50;

async function trace(deps: SubagentCommandDeps, context: CommandContext, rest: string): Promise<Answer> {
  return withTarget(deps, context, rest, async (run) => {
    const entries = await deps.documents.trace(run, MAX_TRACE);
    const lines = entries.map(({ timestamp, agent, action }) => `- \`${timestamp}\` \`${agent}\` ${quotable(action)}`);
    return { text: [`🧭 Trace of ${name(run)}`, "", ...(lines.length === 0 ? ["(nothing on record yet)"] : lines)].join("\n") };
  });
}

async function brief(deps: SubagentCommandDeps, context: CommandContext, rest: string): Promise<Answer> {
  const [target, word] = splitFirst(rest);
  if (word !== "" && word.toLowerCase() !== "clear")
    return { text: "`/subagents brief <id|#>` shows it, with `clear` behind it takes it back." };
  return withTarget(deps, context, target, async (run) => ({
    act: async (tx) => {
      const briefs = await deps.briefing.list(run);
      if (briefs.length === 0) return `${name(run)} has no brief.`;
      if (word === "") return `🧭 Brief of ${name(run)}\n\n${renderBrief(briefs).markdown}`;
      await deps.briefing.revoke(tx, run, null, context.inbound.sender.name ?? context.inbound.sender.id);
      return `🧭 ${name(run)} has no brief any more; from its next step on it sees nothing of it.`;
    },
  }));
}

async function retry(deps: SubagentCommandDeps, context: CommandContext, rest: string): Promise<Answer> {
  return withTarget(deps, context, rest, async (found) => ({
    act: async (tx) => {
      const run = await asItIs(deps, found);
      if (run.delivery !== "blocked") return `The announcement of ${name(run)} is not blocked (${run.delivery}).`;
      if (!(await deps.steering.retry(tx, run)))
        return `The announcement of ${name(run)} can't be sent yet: ${run.deliveryReason ?? "its channel is off"}.`;
      return `📨 The announcement of ${name(run)} is on its way again.`;
    },
  }));
}
