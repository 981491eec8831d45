// Where people are in a chaos run, and how they say something on the page.
import { randomUUID } from "node:crypto";
import { delay, type GatewayProcess } from "./gateway-process.ts";
import { type Place, placeOf } from "./history.ts";

/** Where the page is. */
export type Front = Pick<GatewayProcess, "request">;

export interface Spot {
  /** `web`, or a ground's. */
  readonly channel: string;
  readonly chat: string;
  /** A Slack thread is known once its root was said. */
  thread: string | null;
  /** A room where the first message makes the thread. */
  readonly opensThread: boolean;
  /** People who may not write there can see it, and press. */
  readonly hasOthers: boolean;
}

export const spotPlace = (spot: Spot): Place => placeOf(spot.channel, spot.chat, spot.thread);

export interface Delivered {
  readonly externalId: string;
  readonly lateId?: string;
  readonly ref: string;
  readonly place: Place;
  readonly isTaken: boolean;
  readonly isPressed?: true;
}

export const PERSON = 42;
export const STRANGER = 666;
export const WEB = "web";

const POST_RETRY_MS = 20;

export async function sayOnPage(gateway: Front, spot: Spot, text: string): Promise<Delivered> {
  const id = randomUUID();
  await postUntilTaken(gateway, `/api/chats/${spot.chat}/messages`, { id, text, kind: "message" });
  return { externalId: id, ref: id, place: spotPlace(spot), isTaken: true };
}

/** A tab repeats its post under the same id until somebody takes it. */
export async function postUntilTaken(gateway: Front, path: string, body: unknown): Promise<void> {
  const deadline = performance.now() + 120_000;
  for (;;) {
    try {
      const response = await gateway.request(path, { method: "POST", body: JSON.stringify(body) });
      await response.arrayBuffer();
      const { status } = response;
      if (status < 300) return;
      if (status !== 429 && status < 500) throw new RangeError(`the page refused a post: ${status}`);
    } catch (error) {
      if (error instanceof RangeError) throw error;
      // Nobody there right now: killed or not up yet.
    }
    if (performance.now() > deadline) throw new RangeError("the page took no post for two minutes");
    await delay(POST_RETRY_MS);
  }
}
