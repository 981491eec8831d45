// A model that writes as fast as it is read: the next piece of an answer comes when the one before it was shown. So a test of what is
// shown while an answer is written needs no luck with the time it takes.
import { plan, type Step } from "./brain.ts";
import type { ChannelScene } from "./channel-scene.ts";
import type { Respond } from "./fake-model-server.ts";
import type { FakeSlack } from "./fake-slack.ts";
import { waitFor } from "./wait.ts";

type Peers = Pick<ChannelScene, "telegram" | "slack"> & Partial<Pick<ChannelScene, "matrix" | "discord">>;
type Call = readonly [name: string, args: unknown];

const MARK_MS = 1;
const SHOWING = new Set(["chat.startStream", "chat.appendStream", "chat.update"]);
const MAX_MS = 60_000;

/** A step of a plan: written in so many pieces, each when the one before it was shown. */
export const inPieces = (text: string, count: number): Step => ({
  pieces: text.match(new RegExp(`[\\s\\S]{1,${Math.ceil(text.length / count)}}`, "g")) ?? [],
  pieceMs: MARK_MS,
});

/** In four pieces, and then these calls. */
export const readAlong = (text: string, ...calls: readonly Call[]): Step => ({
  ...inPieces(text, 4),
  toolCalls: calls.map(([name, args], n) => ({ name, args, id: `c${n}` })),
});

/** What a person says to have this answer written so. */
export const asks = (text: string): string => plan([readAlong(text)]);

/** So often something was shown of an answer before it was whole. */
const shownBy = ({ telegram, slack, matrix, discord }: Peers): number =>
  telegram.drafts.length +
  (matrix?.drafts() ?? 0) +
  slack.calls.filter(({ method, executed }) => executed && SHOWING.has(method)).length +
  (discord?.calls ?? []).filter(({ body, executed }) => executed && String(body.content).endsWith("✍️ writing…")).length;

export const callsOf = (slack: FakeSlack, method: string): number => slack.calls.filter((call) => call.method === method).length;

/** `wrap`: the scene is only there once it has its model. */
export function inStep(respond: Respond, scene: () => Peers): Respond {
  return async (request, call) => {
    const script = await respond(request, call);
    if (script.pieceMs !== MARK_MS) return script;
    const before = shownBy(scene());
    return { ...script, pause: (n) => waitFor("somebody to read along", () => shownBy(scene()) >= before + n, MAX_MS) };
  };
}
