// `herald runs info`: everything on record about one run.
import { visibleText } from "../core/visible-text.ts";
import { type Call, EXIT, isSet } from "./command.ts";
import { age, iso, line, runFields, usd } from "./run-lines.ts";
import { openReader, type RunRecord } from "./run-reader.ts";
import { findRun, targetOf } from "./run-target.ts";

export async function info(call: Call): Promise<number> {
  const target = targetOf(call, false);
  const reader = await openReader(call.terminal);
  try {
    const found = await reader.find(await findRun(reader, target));
    if (found === null) throw new Error("There is no such run.");
    if (isSet(call, "json")) call.terminal.say(JSON.stringify(fieldsOf(found)));
    else for (const text of linesOf(found)) call.terminal.say(text);
  } finally {
    reader.close();
  }
  return EXIT.fine;
}

/** What --json promises beside the fields of the list. */
function fieldsOf({ run, task, reason, incomplete, facts, plan, sections, checks, questions }: RunRecord) {
  const { agentId, role, model, thinking, usage, childKey, sessionId, transcript, deliveryReason, generation, resumes } = facts;
  return {
    ...runFields(run),
    ...{
      task,
      reason,
      incomplete,
      agentId,
      role,
      model,
      thinking,
      usage,
      childKey,
      sessionId,
      transcript,
      deliveryReason,
      generation,
      resumes,
    },
    ...{ plan: plan ?? null, sections: sections ?? null, checks: checks ?? null },
    questions: (questions ?? []).map(({ id, text, options, expiresAt }) => ({ id, text, options, expiresAt: iso(expiresAt) })),
  };
}

function linesOf({ run, task, reason, facts, plan, sections, questions }: RunRecord): string[] {
  const at = (time: number | null): string => (time === null ? "-" : `${iso(time)} (${age(Date.now() - time)} ago)`);
  const fields: [string, string][] = [
    ["Run", run.id],
    ["Label", line(run.label)],
    ["State", `${run.state}${reason === null ? "" : `: ${line(reason)}`}`],
    ["Doing", line([run.step, run.doing].filter((part) => part !== null).join(" · "))],
    ["Asked for", line(run.origin)],
    ["Task", line(task)],
    ["Agent", `${facts.agentId}${facts.role === null ? "" : ` as ${facts.role}`}`],
    ["Model", line(`${facts.model} (thinking ${facts.thinking})`)],
    ["Created", at(run.createdAt)],
    ["Started", at(run.startedAt)],
    ["Ended", at(run.endedAt)],
    ["Spent", [run.tokens === null ? "" : `${run.tokens} tokens`, usd(run.costUsd)].filter((part) => part !== "").join(", ")],
    ["Delivery", `${run.delivery}${facts.deliveryReason === null ? "" : `: ${line(facts.deliveryReason)}`}`],
    ["Session", facts.childKey],
    ["Transcript", facts.transcript],
  ];
  const shown = fields.filter(([, value]) => value !== "").map(([name, value]) => `${`${name}:`.padEnd(12)}${value}`);
  const steps = (plan ?? []).map(({ title, status }) => `  [${status}] ${line(title)}`);
  const written = Object.entries(sections ?? {}).flatMap(([name, text]) => (text === null ? [] : ["", `${name}:`, visibleText(text)]));
  const asked = (questions ?? []).flatMap(({ text, options }) => [
    ...["", "Asks you:", visibleText(text)],
    ...options.map((option, n) => `  ${n + 1}) ${line(option)}`),
  ]);
  return [...shown, ...(steps.length === 0 ? [] : ["Plan:", ...steps]), ...written, ...asked];
}
