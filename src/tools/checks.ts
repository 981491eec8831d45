// Completion checks of a run, carried out (EV1): files are looked at without being redirected or held up, commands run in the sandbox
// with the workspace read-only, among all other commands and under the same limits. What lies outside the workspace gets one answer,
// whether it exists or not. subagents/ decides what becomes of what is found; app/ hands it this.
import { lstat } from "node:fs/promises";
import type {
  Check,
  CheckResult,
  CheckSubject,
  CommandCheck,
  ContentCheck,
  FileCheck,
  Judge,
  ResultCheck,
  RunCheck,
} from "../core/check.ts";
import { AppError } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/logger.ts";
import type { CutSecrets } from "../core/secrets.ts";
import type { ToolContext } from "../core/tool.ts";
import { shortText, visibleLine } from "../core/visible-text.ts";
import type { RunCommand } from "./exec.ts";
import { formatBytes } from "./output.ts";
import type { PromptFiles } from "./prompt-files.ts";
import { fileErrorText, openFolder, openRegular, splitPlace } from "./workspace-files.ts";
import { type Place, resolveFor } from "./workspace-path.ts";

const MAX_READ = 8 * 1024 * 1024;
const MAX_OUTPUT = 2_000;
const MAX_NAME = 120;

export interface CheckDeps {
  readonly promptFiles: PromptFiles;
  readonly judge: Pick<Judge, "matches">;
  readonly secrets: CutSecrets;
  readonly log: Logger;
  /** Null: there is no exec here. */
  readonly runCommand: RunCommand | null;
}

type Found = Omit<CheckResult, "name">;

const passed = (why: string): Found => ({ passed: true, why, output: "" });
const failed = (why: string, output = ""): Found => ({ passed: false, why, output });
const unrunnable = (why: string): Found => ({ passed: false, why: `could not be run: ${why}`, output: "", isUnrunnable: true });

export function createRunCheck(deps: CheckDeps): RunCheck {
  return async (check, subject) => ({ name: nameOf(check), ...(await look(deps, check, subject)) });
}

/** One line, as lists, reasons and the child read it. */
function nameOf(check: Check): string {
  if ("exists" in check) return visibleLine(`exists ${check.exists}`, MAX_NAME);
  if ("contains" in check)
    return visibleLine(`contains ${check.contains.path}: ${check.contains.text ?? `/${check.contains.regex}/`}`, MAX_NAME);
  if ("command" in check) {
    const words = typeof check.command === "string" ? check.command : check.command.join(" ");
    return shortText(visibleLine(`command ${words}`, MAX_NAME * 2), MAX_NAME);
  }
  const { minLength, matches } = check.result;
  const parts = [
    ...(minLength === undefined ? [] : [`at least ${minLength} characters`]),
    ...(matches === undefined ? [] : [`/${matches}/`]),
  ];
  return visibleLine(`result ${parts.join(", ")}`, MAX_NAME);
}

function look(deps: CheckDeps, check: Check, subject: CheckSubject): Promise<Found> {
  if ("exists" in check) return atPlace(deps, check.exists, subject, (place) => lookAt(place, check));
  if ("contains" in check) return atPlace(deps, check.contains.path, subject, (place) => lookInto(deps, place, check));
  return "command" in check ? runOne(deps, check, subject) : lookAtResult(deps, check, subject.result);
}

const OUTSIDE = "outside the workspace: only plain paths inside it count, no link that leads out of it, nothing of the agent's memory";

async function atPlace(deps: CheckDeps, path: string, subject: CheckSubject, work: (place: Place) => Promise<Found>): Promise<Found> {
  let place: Place;
  try {
    place = await resolveFor(deps.promptFiles, subject, path);
  } catch {
    // One answer for all of it: a link that leads to something outside and one that leads to nothing must not differ.
    return failed(OUTSIDE);
  }
  try {
    return await work(place);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return failed("there is no such file");
    const sentence = fileErrorText(path, error);
    if (sentence === null && !(error instanceof AppError)) throw error;
    return failed(sentence?.replace(/\.$/, "") ?? OUTSIDE);
  }
}

async function lookAt(place: Place, _: FileCheck): Promise<Found> {
  if (place.parts.length === 0) return passed("it is there");
  const { parents, name } = splitPlace(place);
  await using folder = await openFolder(place.root, parents);
  // Only looked at, never opened: a FIFO would wait for whoever writes to it.
  const stats = await lstat(folder.at(name));
  return stats.isFile() || stats.isDirectory() ? passed("it is there") : failed("it is neither a file nor a folder");
}

async function lookInto({ judge }: CheckDeps, place: Place, { contains: { text, regex } }: ContentCheck): Promise<Found> {
  const { parents, name } = splitPlace(place);
  await using folder = await openFolder(place.root, parents);
  const { file, stats } = await openRegular(folder, name, place.shown);
  await using _ = file;
  if (stats.size > MAX_READ) return failed(`it is larger than ${formatBytes(MAX_READ)}, which is the most that is looked through`);
  // It may grow meanwhile.
  const buffer = Buffer.alloc(Math.min(stats.size + 1, MAX_READ));
  const { bytesRead } = await file.read(buffer, 0, buffer.length, 0);
  const content = buffer.toString("utf8", 0, bytesRead);
  if (text !== undefined && !content.includes(text)) return failed("the text is not in it");
  return regex === undefined ? passed("it is in it") : matching(judge, regex, content, "it");
}

async function lookAtResult({ judge }: CheckDeps, { result: { minLength, matches } }: ResultCheck, text: string): Promise<Found> {
  const { length } = [...text.trim()];
  if (minLength !== undefined && length < minLength) return failed(`the result has ${length} characters`);
  return matches === undefined ? passed(`the result has ${length} characters`) : matching(judge, matches, text, "the result");
}

async function matching(judge: CheckDeps["judge"], pattern: string, text: string, what: string): Promise<Found> {
  const fits = await judge.matches(pattern, text);
  if (fits === null) return unrunnable("the pattern takes too long on this text; use a simpler one");
  return fits ? passed(`${what} matches`) : failed(`${what} does not match`);
}

async function runOne(deps: CheckDeps, { command, exitCode = 0, timeoutSeconds }: CommandCheck, subject: CheckSubject): Promise<Found> {
  if (subject.whyNoCommand !== null) return unrunnable(subject.whyNoCommand);
  if (deps.runCommand === null) return unrunnable("there is no sandbox on this machine, so exec is off");
  const ran = await deps.runCommand({ command, timeoutSeconds }, contextOf(deps, subject));
  if ("refused" in ran) return unrunnable(ran.refused.replace(/\.$/, ""));
  const { result, text, remark } = ran;
  const why = remark.slice(1, -1);
  const output = text.length <= MAX_OUTPUT ? text : `…${text.slice(-MAX_OUTPUT).toWellFormed()}`;
  if (result.end === "failed") return unrunnable(why);
  const isRight = result.end === "exit" && result.signal === null && result.code === exitCode;
  return { passed: isRight, why: isRight || result.end !== "exit" ? why : `${why}, expected ${exitCode}`, output };
}

/** Never wider than the child's own shell: in the sandbox, the workspace only to be read, /scratch a folder of the run's checks alone. */
const contextOf = ({ secrets, log }: CheckDeps, subject: CheckSubject): ToolContext => ({
  agentId: subject.agentId,
  sessionKey: subject.sessionKey,
  sessionId: subject.runId,
  turnId: `checks:${subject.runId}`,
  callId: newId(),
  calledAt: 0,
  runId: subject.runId,
  address: null,
  person: null,
  workspace: subject.workspace,
  readOnly: true,
  signal: subject.signal,
  log,
  secrets,
  progress: subject.progress,
});
