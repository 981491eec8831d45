// How the fake tells the bot what happened: long polling with the offset's real meaning, or calls of its webhook that are
// repeated until it takes them, one after the other in each chat.
import type { ServerResponse } from "node:http";
import { type ApiAnswer, ok, refuse } from "./fake-telegram-rules.ts";
import { type State, wake } from "./fake-telegram-state.ts";

export const OTHER_POLLER = refuse(
  409,
  "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
);

export function pushUpdate(state: State, update: Record<string, unknown>): Record<string, unknown> {
  const full = { update_id: state.nextUpdate++, ...update };
  state.updates.push(full);
  wake(state);
  if (state.webhook !== null) callWebhook(state, full).catch(() => undefined);
  return full;
}

/** Confirms everything below `offset` for good, then answers with what is left, or waits for something. */
export async function getUpdates(state: State, payload: Record<string, unknown>, response: ServerResponse): Promise<ApiAnswer> {
  if (state.webhook !== null) {
    return refuse(409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first");
  }
  state.poll?.end(OTHER_POLLER);
  const offset = Number(payload.offset ?? 0);
  state.updates = state.updates.filter((update) => Number(update.update_id) >= offset);
  const allowed = Array.isArray(payload.allowed_updates) ? (payload.allowed_updates as string[]) : null;
  // Telegram never offers what was not asked for, also not later.
  if (allowed !== null) state.updates = state.updates.filter((update) => allowed.some((type) => Object.hasOwn(update, type)));
  wake(state);
  const limit = Math.min(Number(payload.limit ?? 100), 100);
  if (state.updates.length > 0 || Number(payload.timeout ?? 0) === 0) return ok(state.updates.slice(0, limit));
  return new Promise((resolve) => {
    const end = (answer: ApiAnswer) => {
      clearTimeout(timer);
      state.wakers.delete(look);
      if (state.poll?.end === end) state.poll = null;
      resolve(answer);
    };
    const look = () => {
      const fitting = state.updates.filter((update) => allowed === null || allowed.some((type) => Object.hasOwn(update, type)));
      if (fitting.length > 0 || state.closed) end(ok(fitting.slice(0, limit)));
    };
    const timer = setTimeout(() => end(ok([])), Number(payload.timeout) * 1000);
    state.poll = { end };
    state.wakers.add(look);
    response.on("close", () => end(ok([])));
  });
}

export async function callWebhook(state: State, update: Record<string, unknown>): Promise<void> {
  while (!state.closed && state.webhook !== null && state.updates.includes(update)) {
    if (state.updates.find((other) => chatOf(other) === chatOf(update)) !== update) {
      await nextChange(state);
      continue;
    }
    const { url, secret } = state.webhook;
    const headers = { "content-type": "application/json", "x-telegram-bot-api-secret-token": secret };
    const status = await fetch(url, { method: "POST", headers, body: JSON.stringify(update) }).then(
      (answer) => answer.status,
      () => 0,
    );
    if (status === 200) state.updates = state.updates.filter((other) => other !== update);
    else await new Promise((resolve) => setTimeout(resolve, state.webhookRetryMs));
    wake(state);
  }
}

function chatOf(update: Record<string, unknown>): unknown {
  const { message } = (update.callback_query ?? { message: update.message ?? update.edited_message }) as {
    message?: { chat?: { id: number } };
  };
  return message?.chat?.id;
}

const nextChange = (state: State): Promise<void> =>
  new Promise((resolve) => {
    const look = (): void => {
      state.wakers.delete(look);
      resolve();
    };
    state.wakers.add(look);
  });
