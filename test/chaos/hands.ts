// What people do with their hands in a chaos run instead of typing: pressing buttons, once, twice and too late, replying to a message,
// slash commands; and strangers who press what is not theirs to press.
import { randomUUID } from "node:crypto";
import type { Ground, Shown, ShownButton } from "./ground.ts";
import { ASKED } from "./record.ts";
import { isQuestion, isStatusOf } from "./sightings.ts";
import { type Delivered, type Front, postUntilTaken, type Spot, spotPlace, WEB } from "./spots.ts";

/** Null: there is nothing of the kind to be seen there, and words must do. */
export interface Hands {
  /** Who asks something there that still has its buttons; the page is not looked at. */
  asking(spot: Spot): string[];
  /** Presses this child's Stop below its batch's status message. */
  stop(spot: Spot, label: string): Promise<Delivered[]> | null;
  /** A slash command, where there are some and no thread. */
  slash(spot: Spot, line: string): Promise<Delivered[]> | null;
  /** Presses an option of what this one asks, also when the message does not show it any more. */
  choose(spot: Spot, label: string, how: { readonly option: string; readonly times: number }): Promise<Delivered[]> | null;
  /** Somebody presses it who may not write there. */
  meddle(spot: Spot, label: string, option: string): Promise<Delivered[]>;
  /** Replies to the question with these words. */
  reply(spot: Spot, label: string, text: string): Promise<Delivered[]> | null;
  /** Types the command that stands below the question. */
  answer(spot: Spot, label: string, text: string): Promise<Delivered[]> | null;
}

const isQuestionOf = (text: string, label: string): boolean => isQuestion(text) && text.split(/\s/).includes(label);
/** Below an open question. */
const TYPED = /\/subagents answer (\S+) …/;

interface Known {
  readonly message: string;
  readonly button: ShownButton;
}

export function createHands(grounds: ReadonlyMap<string, Ground>, front: Front): Hands {
  /** Buttons as they were once seen: a client may show them for hours. */
  const once = new Map<string, Known>();
  const shownAt = (spot: Spot): Shown[] => grounds.get(spot.channel)?.shown(spot) ?? [];
  const questionOf = (spot: Spot, label: string): Shown | undefined =>
    shownAt(spot)
      .filter(({ text }) => isQuestionOf(text, label))
      .at(-1);
  const press = (spot: Spot, label: string, option: string, isStranger: boolean): Promise<Delivered> | null => {
    const shown = questionOf(spot, label);
    const button = shown?.buttons.find((one) => one.label === option);
    const key = `${spot.channel} ${label} ${option}`;
    if (shown !== undefined && button !== undefined) once.set(key, { message: shown.id, button });
    const known = once.get(key);
    return known === undefined ? null : (grounds.get(spot.channel)?.press(spot, known.message, known.button, isStranger) ?? null);
  };
  const say = (spot: Spot, text: string, replyTo?: string): Promise<Delivered[]> | null =>
    grounds
      .get(spot.channel)
      ?.say(spot, text, replyTo)
      .then((one) => [one]) ?? null;
  return {
    asking: (spot) =>
      shownAt(spot)
        .filter(({ buttons }) => buttons.length > 0)
        .flatMap(({ text }) => (isQuestion(text) ? (ASKED.exec(text)?.[1] ?? []) : [])),
    stop(spot, label) {
      for (const { id, text, buttons } of shownAt(spot)) {
        const button = isStatusOf(text, label) ? buttons.find((one) => isStopOf(label, one.label)) : undefined;
        const pressed = button === undefined ? null : grounds.get(spot.channel)?.press(spot, id, button, false);
        if (pressed != null) return pressed.then((one) => [one]);
      }
      return null;
    },
    slash: (spot, line) =>
      spot.thread === null
        ? (grounds
            .get(spot.channel)
            ?.slash?.(spot, line)
            .then((one) => [one]) ?? null)
        : null,
    choose(spot, label, { option, times }) {
      if (spot.channel === WEB) return chooseOnPage(front, spot, label, option, times);
      const done = Array.from({ length: times }, () => press(spot, label, option, false)).filter((one) => one !== null);
      return done.length === 0 ? null : Promise.all(done);
    },
    async meddle(spot, label, option) {
      const pressed = press(spot, label, option, true);
      return pressed === null ? [] : [await pressed];
    },
    reply(spot, label, text) {
      const message = grounds.get(spot.channel)?.hasReplies(spot) === true ? questionOf(spot, label) : undefined;
      return message === undefined ? null : say(spot, text, message.id);
    },
    answer(spot, label, text) {
      const id = TYPED.exec(questionOf(spot, label)?.text ?? "")?.[1];
      return id === undefined ? null : say(spot, text.replace(` ${label} `, ` ${id} `));
    },
  };
}

/** The button that stops this child: of a batch of one it needs no name. */
const isStopOf = (label: string, button: string): boolean => button === "Stop" || button === `Stop ${label}`;

/** What a tab shows it presses; where nobody answers or the question is not there (yet), the command is typed. */
async function chooseOnPage(front: Front, spot: Spot, label: string, option: string, times: number): Promise<Delivered[]> {
  const path = `/api/chats/${spot.chat}/messages`;
  const shown = await buttonsOnPage(front, path, label);
  const command = shown.find((one) => one.label === option)?.command ?? `/subagents answer ${label} ${option}`;
  const ids = Array.from({ length: times }, () => randomUUID());
  // One after the other, as a tab posts: what is said in a place arrives in that order.
  for (const id of ids) await postUntilTaken(front, path, { id, text: command, kind: "button" });
  return ids.map((id) => ({ externalId: id, ref: id, place: spotPlace(spot), isTaken: true }));
}

interface PageButton {
  readonly label: string;
  readonly command: string;
}

/** Below what this one asks. */
async function buttonsOnPage(front: Front, path: string, label: string): Promise<PageButton[]> {
  try {
    const { messages } = (await (await front.request(path)).json()) as { messages: { html?: string; buttons?: PageButton[] }[] };
    return messages.flatMap(({ html = "", buttons = [] }) => (html.includes(`q ${label}`) ? buttons : []));
  } catch {
    // Nobody there right now.
    return [];
  }
}
