// A question as people read it, from the moment it is asked until it is settled: words, buttons, and which part of a long one
// is edited. Pure. What an approval would do is written by code from the arguments (approvals.ts), never by a model.
import type { Button, Channel, OutMessage, Part } from "../core/message.ts";
import { answerCommand, nameOf, optionMark, type Question, type Verdict } from "../core/question.ts";
import { visibleLine } from "../core/visible-text.ts";
import { closed } from "../subagents/markdown-blocks.ts";
import { oneLine, quotable } from "../subagents/quoting.ts";

/**
 * What is posted. One that takes several messages ends in a short one of its own with the buttons: that one is edited later, and
 * nothing of what was asked may vanish with it.
 */
export function questionParts(channel: Channel, question: Question): Part[] {
  if (!isLong(channel, question)) return channel.render(messageOf(channel, question), question.address);
  const { buttons: _buttons, ...words } = messageOf(channel, question);
  const { address } = question;
  return [...channel.render({ ...words, fileName: FILE_NAME }, address), ...channel.render(briefOf(channel, question), address)];
}

/** What the last of its messages shows by now. */
export function editedPart(channel: Channel, question: Question): Part | undefined {
  return channel.render(isLong(channel, question) ? briefOf(channel, question) : messageOf(channel, question), question.address).at(-1);
}

/** With room for how it may end: an edit is one message, and of one that grows beyond that only the end would be left standing. */
const isLong = (channel: Channel, question: Question): boolean => {
  const { markdown } = messageOf(channel, { ...question, state: "open" });
  return channel.render({ markdown: `${markdown}${"x".repeat(MAX_OUTCOME)}` }, question.address).length > 1;
};

/** Who answered, how, and as much of what they said as is shown. */
const MAX_OUTCOME = 600;

/** Below one that takes several messages. */
const briefOf = (channel: Channel, question: Question): OutMessage => ({
  ...messageOf(channel, question),
  markdown: `${headOf(question)} _(all of it stands above)_\n\n${footOf(channel, question)}`,
});

const FILE_NAME = "question.md";

function messageOf(channel: Channel, question: Question): OutMessage {
  // A model's words leave nothing open, or what stands below would be swallowed. What a call would do is code's, and shown whole.
  const text = question.kind === "ask" ? closed(quotable(question.text)) : question.text;
  const markdown = [headOf(question), text, footOf(channel, question)].join("\n\n");
  return question.state === "open" ? { markdown, buttons: buttonsOf(question) } : { markdown };
}

/** Labels are a model's words: one line, and no markup of theirs. */
const headOf = ({ kind, asker, tool }: Question): string =>
  kind === "ask" ? `❓ **${oneLine(asker)}** asks:` : `🔐 **${oneLine(asker)}** wants to use \`${tool ?? "a tool"}\`:`;

function footOf(channel: Channel, question: Question): string {
  switch (question.state) {
    case "open":
      return `_${howToAnswer(channel, question)}_`;
    case "answered":
      return answeredText(question);
    case "expired":
      return question.kind === "ask" ? "⌛ Nobody answered in time." : "⌛ Nobody answered in time, which is a No.";
    case "void":
      return "This question is closed: what asked it has ended or changed.";
  }
}

/** The beginning of its id is enough for a person to name it by. */
export const shortQuestionId = ({ id }: Pick<Question, "id">): string => id.slice(0, 6);

/** In a thread of Slack's there are no slash commands. */
const signOf = ({ threadSign }: Channel, { address }: Question): string | undefined =>
  address.thread === undefined ? undefined : threadSign;
const typedAnswer = (channel: Channel, question: Question, words: string): string =>
  `\`${signOf(channel, question) ?? "/"}subagents answer ${shortQuestionId(question)} ${words}\``;

/**
 * To who says something while an approval is open: a yes to a tool is never guessed from what somebody says, so whoever meant it so has
 * to hear how it is said. `isNext`: what they said is read right after it.
 */
export function undecidedText(channel: Channel, question: Question, isNext: boolean): string {
  const where = signOf(channel, question) === undefined ? "press a button there, reply to it" : "press a button there";
  const how = `${where}, or write ${typedAnswer(channel, question, "yes")} (or \`no\` and a reason)`;
  const asked = `${oneLine(question.asker)} still waits for a Yes or No to use \`${question.tool ?? "a tool"}\`, asked above`;
  return `_⏳ ${asked}: ${how}. ${isNext ? "What you say here allows nothing; it comes right after that." : "What you say here allows nothing."}_`;
}

function howToAnswer(channel: Channel, question: Question): string {
  const { kind, options, runId } = question;
  const sign = signOf(channel, question);
  const typed = typedAnswer(channel, question, "…");
  if (kind === "approve") return `Nothing happens without a Yes. ${typed} works too, with yes, run, always or no and a reason.`;
  if (sign === undefined)
    return options.length > 0 ? `Press one, or reply with other words; ${typed} works too.` : `Reply to this message, or ${typed}.`;
  const words =
    runId === null ? `mention me with ${options.length > 0 ? "other words" : "the answer"}, or write ${typed}` : `write ${typed}`;
  return options.length > 0 ? `Press one, or ${words}.` : `To answer, ${words}.`;
}

const MAX_SHOWN_ANSWER = 300;

const VERDICT_TEXT: Record<Verdict, string> = {
  yes: "allowed, this once",
  run: "allowed, for this run",
  always: "allowed, always in this chat",
  no: "refused",
};

/** An answer to an approval as people say it. */
export const verdictText = (verdict: Verdict, { runId }: Pick<Question, "runId">): string =>
  verdict === "run" && runId === null ? "allowed, for this turn" : VERDICT_TEXT[verdict];

function answeredText({ verdict, answer, answeredBy, runId }: Question): string {
  const who = oneLine(answeredBy === null ? "somebody" : nameOf(answeredBy));
  const said = visibleLine(answer ?? "", MAX_SHOWN_ANSWER);
  if (verdict === null) return `✅ **${who}**: ${said}`;
  const reason = said === "" ? "" : `: ${said}`;
  const outcome = verdictText(verdict, { runId });
  const words = `${outcome.charAt(0).toUpperCase()}${outcome.slice(1)}`;
  return `${verdict === "no" ? `✖ ${words}` : `✅ ${words},`} by **${who}**${reason}`;
}

function buttonsOf({ id, kind, options, runId }: Question): Button[] {
  if (kind === "ask") return options.map((label, n) => ({ label, command: answerCommand(id, optionMark(n)) }));
  return [
    { label: "Yes", command: answerCommand(id, "yes") },
    { label: runId === null ? "Yes for this turn" : "Yes for this run", command: answerCommand(id, "run") },
    { label: "Always in this chat", command: answerCommand(id, "always") },
    { label: "No", command: answerCommand(id, "no"), danger: true },
  ];
}
