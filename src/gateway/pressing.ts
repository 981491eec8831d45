// Presses of the buttons below a status message (LV4). A button stands in a chat for as long as its message does, and its words can be
// made by hand: it names one run in one generation, or one batch, and is held against the rows in the transaction that acts. Nobody
// learns from it what there is in other chats.
import type { Inbound } from "../core/message.ts";
import { isUnfinished, type Run } from "../core/run.ts";
import { visibleLine } from "../core/visible-text.ts";
import type { Runs } from "../stores/runs.ts";
import type { Steering } from "../subagents/steering.ts";
import { type Answer, plural } from "./commands.ts";

/** The same for what is not there, not theirs and not ours. */
export const FUTILE_PRESS = "That button does nothing here.";
const ENDED = "That run has ended.";
const ALL_ENDED = "Those runs have ended.";

/** Who presses can't have mistyped: no help, and no word about what there is. */
export const answerTo = ({ kind }: Pick<Inbound, "kind">, text: string): string => (kind === "button" ? FUTILE_PRESS : text);

export type Pressed = { readonly runId: string; readonly generation: number } | { readonly batch: string; readonly generation: number };

/** `<run id>@<generation>`, `batch:<batch>@<generation>`, as subagents/status-message.ts writes them; null: something else. */
export function readPressed(target: string): Pressed | null {
  const [, runId, batch, generation] = /^(?:([0-9a-f-]{36})|batch:([0-9a-f]{12}))@(\d{1,9})$/.exec(target) ?? [];
  if (runId !== undefined) return { runId, generation: Number(generation) };
  return batch === undefined ? null : { batch, generation: Number(generation) };
}

export interface PressingDeps {
  readonly runs: Pick<Runs, "get" | "listBatch">;
  readonly steering: Pick<Steering, "stop">;
}

const BY = "by its Stop button";

export const stopPressed = (deps: PressingDeps, sessionKey: string, pressed: Pressed): Answer => ({
  act: async (tx) => {
    const isHere = (run: Run | null): run is Run => run !== null && run.rootKey === sessionKey;
    const named = "runId" in pressed ? [await deps.runs.get(pressed.runId)] : await deps.runs.listBatch(pressed.batch);
    const here = named.filter(isHere);
    if (here.length === 0) return FUTILE_PRESS;
    // A run that goes on after its end is another one to whoever pressed: they had seen an end, or not seen it yet. Of a batch the button
    // names the highest generation that was shown.
    const meant = here.filter(({ generation }) =>
      "runId" in pressed ? generation === pressed.generation : generation <= pressed.generation,
    );
    const going = meant.filter((run) => isUnfinished(run.state));
    const [first] = going;
    if (first === undefined) return "runId" in pressed ? ENDED : ALL_ENDED;
    const stopped = await deps.steering.stop(tx, going, BY);
    const name = "runId" in pressed ? `: "${visibleLine(first.label, 80)}"${stopped.length > 1 ? " and what it sent out" : ""}` : "";
    return `⚙️ Stopped ${plural(stopped.length, "sub-agent")}${name}.`;
  },
});
