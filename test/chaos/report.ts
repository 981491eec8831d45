// What a chaos run says at its end: the figures, and for a violation the shortest history of the message or run it is about.
import type { Violation } from "./case.ts";
import { groupOf, type History, rootOf } from "./history.ts";
import type { NodesOptions, NodesOutcome } from "./nodes-run.ts";
import type { ChaosOptions, ChaosOutcome } from "./run.ts";

/** The figures as they go into a file and the line of docs/figures.md. */
export interface ChaosFigures {
  readonly [name: string]: number | string | Readonly<Record<string, number>> | readonly string[];
}

export function figuresOf(outcome: ChaosOutcome, options: ChaosOptions): ChaosFigures {
  const { verdict, kills, pointKills, starts, durationMs, points, secrets } = outcome;
  const count = (kind: Violation["kind"]): number => verdict.violations.filter((one) => one.kind === kind).length;
  const others = verdict.violations.filter((one) => !["lost", "repeated", "misplaced", "after-stop", "reordered"].includes(one.kind));
  return {
    seed: options.seed,
    platforms:
      options.platforms === "all"
        ? "two Telegram bots, two Slack workspaces, Matrix, Discord and the page"
        : "Telegram, Slack and the page",
    kills,
    pointKills,
    starts,
    minutes: Math.round(durationMs / 6_000) / 10,
    ...verdict.figures,
    lost: count("lost"),
    repeated: count("repeated"),
    misplaced: count("misplaced"),
    afterStop: count("after-stop"),
    reordered: count("reordered"),
    otherViolations: others.length,
    secrets: `${secrets.planted} planted, said ${secrets.said} times, ${others.filter((one) => one.text.includes("secret")).length} found`,
    points,
    markedRepeats: verdict.markedRepeats,
  };
}

/** What docs/figures.md says about it, in one paragraph. */
export function markdownLine(figures: ChaosFigures): string {
  const {
    kills,
    pointKills,
    minutes,
    seed,
    messages,
    commands,
    runs,
    groups,
    announcements,
    wakings,
    secrets,
    otherViolations,
    platforms,
  } = figures;
  const { lost, repeated, misplaced, reordered, afterStop, marked } = figures;
  return [
    `${kills} kills with SIGKILL, ${pointKills} of them at named points, in ${minutes} min (seed ${seed}), under traffic on ${platforms} with faults on the platforms:`,
    `${messages} messages, ${commands} commands, ${runs} runs, ${groups} groups, ${announcements} announcements, ${wakings} wakings.`,
    `**${lost} lost, ${repeated} repeated, ${misplaced} misplaced, ${reordered} out of order, ${afterStop} said after a stop**, ${otherViolations} other violations.`,
    `Telegram can't be asked whether a message arrived: ${marked} of its messages came again, each marked as such.`,
    `Secrets: ${secrets} in logs, transcripts, database, documents, platforms, page or metrics.`,
  ].join(" ");
}

/** Of several processes, beside what is the same for one. */
export function nodesFiguresOf(outcome: NodesOutcome, options: NodesOptions): ChaosFigures {
  const { faults, ended, bellsLost, answersLost, most } = outcome;
  return { nodes: options.nodes, ...figuresOf(outcome, options), faults, ended, bellsLost, answersLost, most };
}

/** The same paragraph for several processes. */
export function nodesMarkdownLine(figures: ChaosFigures): string {
  const { nodes, kills, pointKills, minutes, seed, messages, commands, runs, groups, announcements, wakings, secrets, otherViolations } =
    figures;
  const { lost, repeated, misplaced, reordered, afterStop, marked, bellsLost, answersLost } = figures;
  const faults = figures.faults as NodesOutcome["faults"];
  const ended = figures.ended as NodesOutcome["ended"];
  const most = figures.most as NodesOutcome["most"];
  return [
    `${nodes} processes on one PostgreSQL: ${kills} kills with SIGKILL, ${pointKills} of them at named points, ${faults.freeze} freezes longer than the lease and ${faults.doze} shorter ones,`,
    `${faults.crash} crashes of PostgreSQL, its connections cut ${faults.cut + faults.cutNode} times, ${faults.hold} times nothing went through to it, ${answersLost} answers to a commit lost, ${bellsLost} notifications dropped,`,
    `in ${minutes} min (seed ${seed}), under the same traffic and faults on the platforms:`,
    `${messages} messages, ${commands} commands, ${runs} runs, ${groups} groups, ${announcements} announcements, ${wakings} wakings.`,
    `**${lost} lost, ${repeated} repeated, ${misplaced} misplaced, ${reordered} out of order, ${afterStop} said after a stop**, ${otherViolations} other violations.`,
    `Never more than ${most.subagent} runs at work at once where ${most.maxSubagent} may be. ${ended.frozen + ended.cutOff + ended.unasked} times a process began anew because its lease was over.`,
    `${marked} of Telegram's messages came again, each marked as such. Secrets: ${secrets}.`,
  ].join(" ");
}

interface Event {
  readonly at: number;
  readonly line: string;
}

const MAX_EVENTS = 60;

/** The events that concern it, with the kills in between; everything else is left out. */
export function shortHistory(history: History, violation: Violation): string[] {
  const { about } = violation;
  const root = rootOf(about);
  const said = history.said.filter((one) => one.id === root || one.target === about || one.children.some((child) => child.label === about));
  const place = said[0]?.place;
  const first = said[0]?.at ?? 0;
  const stops = history.said.filter(
    (one) => one.place === place && /stop|new/.test(one.kind) && one.at >= first - 5_000 && !said.includes(one),
  );
  const refs = new Set([...said, ...stops].map((one) => one.ref));
  const arrivals = [...said, ...stops].map((one) => history.inbox.find((row) => row.externalId === one.externalId)?.id);
  const isAbout = (text: string): boolean => new RegExp(`\\b${about.replace(".", "\\.")}\\b`).test(text);
  const isAnswer = (key: string | null): boolean => arrivals.some((id) => key === `reply:${id}#0` || key === `answer:${id}#0`);
  const seen = history.seen.filter(
    (one) => isAbout(one.text) || (one.replyTo !== null && refs.has(one.replyTo)) || isAnswer(one.key) || one.ref === about,
  );
  const events: Event[] = [
    ...[...said, ...stops].map((one) => ({ at: one.at, line: `${one.place} ← ${one.id} ${JSON.stringify(one.text)}` })),
    ...seen.map((one) => ({ at: one.at, line: `${one.place} → ${JSON.stringify(one.text.slice(0, 160))} (${one.key ?? one.ref})` })),
  ].toSorted((a, b) => a.at - b.at);
  const last = events.at(-1)?.at ?? first;
  const kills = history.incidents.filter((one) => one.at >= first - 1_000 && one.at <= last + 5_000);
  const all = [...events, ...kills.map(({ at, what }) => ({ at, line: `-- ${what}` }))].toSorted((a, b) => a.at - b.at);
  const rows = [
    ...history.inbox.filter((row) => arrivals.includes(row.id)).map((row) => `inbox ${JSON.stringify(row)}`),
    ...history.runs.filter((run) => run.label === about).map((run) => `run ${JSON.stringify(run)}`),
    ...history.groups.filter(({ name }) => name === groupOf(root)).map((group) => `group ${JSON.stringify(group)}`),
    ...history.ends
      .filter((end) => history.runs.some((run) => run.label === about && run.id === end.runId))
      .map((end) => `end ${JSON.stringify(end)}`),
    ...history.outbox
      .filter((row) => isAbout(row.text) || arrivals.some((id) => row.delivery.endsWith(`:${id}`)))
      .map((row) => `outbox ${JSON.stringify({ ...row, text: row.text.slice(0, 80) })}`),
  ];
  const lines = all.map(({ at, line }) => `${new Date(at).toISOString().slice(11, 23)} ${line}`);
  const shown =
    lines.length <= MAX_EVENTS
      ? lines
      : [...lines.slice(0, MAX_EVENTS / 2), `… ${lines.length - MAX_EVENTS} more`, ...lines.slice(-MAX_EVENTS / 2)];
  return [...shown, ...rows];
}
