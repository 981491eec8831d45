// What can go wrong with a call to the fake Discord, for all of a kind or for one channel or person.
import type { ServerResponse } from "node:http";
import type { Call, Fault, State } from "./fake-discord-state.ts";
import { isAfter, respondJson, type Strike, spoil } from "./fake-platform.ts";

/** One may be meant for a single channel, or person: `getMessages:5000000000000000005`. */
export function faultFor({ faults }: State, { method, channel, body }: Call): Strike<Fault> | null {
  return faults.take(`${method}:${channel === "" ? String(body.recipient_id) : channel}`) ?? faults.take(method);
}

const isHeldBack = (fault: Fault): fault is { answeredAfter: Promise<void> } => typeof fault === "object" && "answeredAfter" in fault;

/** It strikes before the call is executed. */
export const isBefore = (fault: Fault): boolean => !isAfter(fault) && !isHeldBack(fault);

/** Resolves when the answer, which stands by now, may be given. */
export async function delayOf(strike: Strike<Fault> | null): Promise<void> {
  if (strike !== null && isHeldBack(strike.fault)) await strike.fault.answeredAfter;
}

export function strike(response: ServerResponse, { fault, options }: Strike<Fault>, answer: object = {}): void {
  if (typeof fault === "object")
    return isHeldBack(fault) ? undefined : respondJson(response, fault.status, { message: fault.message, code: fault.code });
  switch (fault) {
    case "429":
    case "429_global": {
      const after = options.retryAfter ?? 1;
      const isGlobal = fault === "429_global";
      const body = { message: "You are being rate limited.", retry_after: after, global: isGlobal };
      const scope = isGlobal ? [["x-ratelimit-global", "true"] as const] : [];
      return respondJson(response, 429, body, Object.fromEntries([["retry-after", String(after)], ...scope]));
    }
    case "500":
    case "500_after":
      return respondJson(response, 500, { message: "500: Internal Server Error", code: 0 });
    default:
      return spoil(response, fault, answer);
  }
}
