// `herald setup`: model and connections, each tried before anything is written, and all of it written at once. With questions on a
// terminal; with flags also without one, and then nothing is asked or waited for.
import { openDraft, type SetupDraft } from "../app/setup/draft.ts";
import type { SectionView, SetupView } from "../web/setup.ts";
import { type Call, EXIT, isSet, UsageError } from "./command.ts";
import { findGateway, GatewayAway, isServing, Refused } from "./gateway.ts";
import {
  answersOf,
  checkSources,
  envWithout,
  flagOf,
  type Given,
  givenFlags,
  isFromStdin,
  missingFields,
  readSecrets,
  toTouched,
  visibleFields,
} from "./setup-answers.ts";
import { linesOf, type Outcome, tried } from "./setup-trial.ts";
import type { Terminal } from "./terminal.ts";

export async function setup(call: Call): Promise<number> {
  const { terminal } = call;
  if (call.words.length > 0) throw new UsageError("setup takes no further words.");
  const isAsking = terminal.isLive && terminal.stdin.isTTY === true;
  const given = givenFlags(call);
  if (given.length === 0 && !isAsking)
    throw new UsageError("setup asks its questions on a terminal. Without one, answer them with flags, such as --model and --key-env.");
  checkSources(given, terminal);
  const env = envWithout(terminal.env, given);
  const isRunning = await isServing(terminal);
  const draft = await openDraft({ env, cwd: terminal.cwd, isRunning });
  const outcome = isAsking ? await ask(call, draft, given) : await fillIn(call, draft, given);
  if (outcome === "write") return finish(terminal, draft, isRunning);
  return outcome === "unchanged" ? EXIT.fine : EXIT.failed;
}

async function ask(call: Call, draft: SetupDraft, given: readonly Given[]): Promise<Outcome> {
  const { askSetup } = await import("./setup-asking.ts");
  // A dash would read what is typed: on a terminal it is a question like the others.
  const known = await readSecrets(
    given.filter((one) => !isFromStdin(one)),
    call.terminal,
  );
  const named = new Set(given.map(({ section }) => section));
  return askSetup(draft, { given: known, named, terminal: call.terminal, isUntested: isSet(call, "untested") });
}

/** Without a question. */
async function fillIn(call: Call, draft: SetupDraft, given: readonly Given[]): Promise<Outcome> {
  const { terminal } = call;
  const views = draft.sections.filter(({ id }) => given.some(({ section }) => section === id));
  refuseHalf(views, given);
  const known = await readSecrets(given, terminal);
  let [isFine, isRefused] = [true, false];
  for (const view of views) {
    const touched = toTouched(view, answersOf(view, known));
    for (const { label, fixed } of visibleFields(view, touched.values))
      if (fixed !== undefined) terminal.remark(`${view.title}: ${label}: ${fixed}`);
    const tested = await tried(draft, touched);
    for (const text of linesOf(view, tested)) (tested.isOk ? terminal.say : terminal.remark)(text);
    draft.keep(touched);
    isRefused ||= tested.isRefused;
    if (!tested.isOk && (tested.isRefused || !isSet(call, "untested"))) isFine = false;
  }
  if (!isFine) terminal.remark(`Nothing was written.${isRefused ? "" : " (--untested writes it all the same.)"}`);
  return isFine ? "write" : "failed";
}

/** Before a secret is read: a half answer is no answer. */
function refuseHalf(views: readonly SectionView[], given: readonly Given[]): void {
  const missing = views.flatMap((view) => {
    const hasModel = view.id !== "model" || given.some(({ flag }) => flag === "model");
    if (!hasModel) return ["--model"];
    return missingFields(view, answersOf(view, given)).map(({ name, label }) => `--${flagOf(view.id, name) ?? label}`);
  });
  if (missing.length > 0) throw new UsageError(`Missing: ${missing.join(", ")}. Nothing was written.`);
}

async function finish(terminal: Terminal, draft: SetupDraft, isRunning: boolean): Promise<number> {
  const waiting = draft.write();
  terminal.say(`Written: settings in ${draft.files.settings}, secrets in ${draft.files.dotEnv}.`);
  const told = isRunning ? await tell(terminal) : null;
  if (told === null) {
    terminal.say("It counts from the next start: herald start.");
    return EXIT.fine;
  }
  if (told.problem !== null) terminal.remark(`The gateway that runs does not take it: ${told.problem}`);
  else if (told.isOlder) terminal.say("The gateway that runs is of another version: restart it, and it counts.");
  else if (waiting.length > 0) terminal.say(`Takes effect after a restart of the gateway: ${waiting.join(", ")}.`);
  else terminal.say("The gateway that runs has taken it up: it counts from now on.");
  return told.problem === null ? EXIT.fine : EXIT.failed;
}

/** Null: it is gone meanwhile. */
async function tell(terminal: Terminal): Promise<{ problem: string | null; isOlder: boolean } | null> {
  try {
    const { problem } = await findGateway(terminal).post<Pick<SetupView, "problem">>("/api/setup/reload", {});
    return { problem, isOlder: false };
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return { problem: null, isOlder: true };
    if (error instanceof GatewayAway) return null;
    throw error;
  }
}
