// When the next message may leave for a chat, so that the platform never has to say 429: it would cost the wait it names, and a
// bot that goes on asking for it waits ever longer. The figures are the channel's (Channel.pace), the counting is here.
// Answers to commands are kept a place: nobody waits for one because twenty announcements are due in the same chat.
//
// The platform counts when a message reaches it, and nobody knows when that is but that it is before the call is over. So a place
// is taken when a call begins and given back counting from its end: however slow the line, the platform's count is never ahead.
import { type Address, addressKey, wholeChatKey } from "../core/address.ts";
import type { Clock } from "../core/clock.ts";
import type { Pace } from "../core/message.ts";

export interface Pacer {
  /** Milliseconds until a message may go there; 0: now. */
  waitMs(address: Address, isAnswer: boolean): number;
  /** Whoever comes behind the next ordinary message there will have to wait. */
  isLast(address: Address): boolean;
  take(address: Address): Place;
  /** The platform asked for it: nothing goes there for so long. */
  silence(address: Address, ms: number): void;
  /** Something went out there at this time, before this process began. */
  remember(address: Address, at: number): void;
}

/** One of a chat's places, for one call. The first of the two words counts. */
export interface Place {
  /** The call is over, or has taken so long that nobody waits for it any more. */
  over(): void;
  /** There was no call after all. */
  giveBack(): void;
}

interface Limit {
  /** How many must be free for an ordinary message, and for an answer to a command. */
  readonly needs: { readonly ordinary: number; readonly answer: number };
  /** All of them: nobody has sent anything for a while. */
  readonly size: number;
  free(now: number): number;
  /** Until so many are free. */
  waitMs(count: number, now: number): number;
  take(now: number): void;
  over(now: number): void;
  giveBack(): void;
}

interface Chat {
  readonly limits: readonly Limit[];
  silence: { readonly from: number; readonly until: number };
}

/** More chats than this don't talk within a minute; of the others nothing needs to be known. */
const MAX_CHATS = 5_000;
const ANSWERS_SHARE = 0.1;
/** All places are taken by calls under way: when one of them ends is anybody's guess. */
const LOOK_AGAIN_MS = 100;

export function createPacer(clock: Clock, paceOf: (address: Address) => Pace | undefined): Pacer {
  const chats = new Map<string, Chat>();
  const accounts = new Map<string, Limit>();

  const chatOf = (address: Address): Chat => {
    const pace = paceOf(address);
    const key = pace?.threadsApart === true ? addressKey(address) : wholeChatKey(address);
    const known = chats.get(key);
    if (known !== undefined) return known;
    if (chats.size >= MAX_CHATS) forgetIdle(chats, clock.now());
    const chat: Chat = { limits: limitsOf(accounts, address, pace), silence: { from: 0, until: 0 } };
    chats.set(key, chat);
    return chat;
  };

  return {
    waitMs(address, isAnswer) {
      const now = clock.now();
      const { limits, silence } = chatOf(address);
      // Not begun yet, by a clock that was set back: then its end says nothing either.
      const silentMs = now < silence.from ? 0 : Math.max(0, silence.until - now);
      return Math.max(silentMs, ...limits.map((limit) => limit.waitMs(isAnswer ? limit.needs.answer : limit.needs.ordinary, now)));
    },
    isLast(address) {
      const now = clock.now();
      return chatOf(address).limits.some((limit) => limit.free(now) < limit.needs.ordinary + 1);
    },
    take(address) {
      const { limits } = chatOf(address);
      for (const limit of limits) limit.take(clock.now());
      let isOpen = true;
      const once = (end: (limit: Limit) => void) => () => {
        if (isOpen) limits.forEach(end);
        isOpen = false;
      };
      return { over: once((limit) => limit.over(clock.now())), giveBack: once((limit) => limit.giveBack()) };
    },
    silence(address, ms) {
      const now = clock.now();
      chatOf(address).silence = { from: now, until: now + ms };
    },
    remember(address, at) {
      for (const limit of chatOf(address).limits) {
        limit.take(at);
        limit.over(at);
      }
    },
  };
}

function limitsOf(accounts: Map<string, Limit>, { channel, account, kind }: Address, pace: Pace | undefined): Limit[] {
  if (pace === undefined) return [];
  const key = `${channel}/${account}`;
  const shared = accounts.get(key) ?? (pace.account === undefined ? null : createWindow(pace.account));
  if (shared !== null) accounts.set(key, shared);
  return [
    createBucket(pace.chat),
    ...(pace.group === undefined || kind === "dm" ? [] : [createWindow(pace.group)]),
    ...(shared === null ? [] : [shared]),
  ];
}

function forgetIdle(chats: Map<string, Chat>, now: number): void {
  for (const [key, { limits, silence }] of chats)
    if (silence.until <= now && limits.every((limit) => limit.free(now) >= limit.size)) chats.delete(key);
}

/** `burst` at once, then one every `everyMs`. */
function createBucket({ burst, everyMs, answersOnTop }: Pace["chat"]): Limit {
  /** When it is full again. */
  let fullAt = 0;
  const missing = (now: number): number => {
    // A clock that was set back must not keep anybody waiting for longer than an empty bucket does.
    fullAt = Math.min(fullAt, now + (burst + answersOnTop) * everyMs);
    return Math.max(0, fullAt - now) / everyMs;
  };
  return {
    needs: { ordinary: burst > 1 ? 2 : 1, answer: 1 - answersOnTop },
    size: burst,
    free: (now) => burst - missing(now),
    waitMs: (count, now) => Math.max(0, Math.ceil((count - burst + missing(now)) * everyMs)),
    take(now) {
      fullAt = Math.max(fullAt, now) + everyMs;
    },
    over(now) {
      fullAt = Math.max(fullAt, now + everyMs);
    },
    giveBack() {
      fullAt -= everyMs;
    },
  };
}

/** Never more than `max` within any `perMs`. */
function createWindow({ max, perMs }: NonNullable<Pace["group"]>): Limit {
  let underWay = 0;
  let ends: number[] = [];
  const used = (now: number): number => {
    ends = ends.map((end) => Math.min(end, now)).filter((end) => end > now - perMs);
    return ends.length + underWay;
  };
  return {
    needs: { ordinary: 1 + Math.floor(max * ANSWERS_SHARE), answer: 1 },
    size: max,
    free: (now) => max - used(now),
    waitMs(count, now) {
      const tooMany = used(now) + count - max;
      if (tooMany <= 0) return 0;
      const freed = ends[tooMany - 1];
      return freed === undefined ? LOOK_AGAIN_MS : freed + perMs - now;
    },
    take() {
      underWay++;
    },
    over(now) {
      underWay--;
      ends.push(now);
    },
    giveBack() {
      underWay--;
    },
  };
}
