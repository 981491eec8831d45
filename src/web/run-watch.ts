// Which tab has which run open, and what reaches it beside the record: what the run writes at the moment. Whoever works on a run is told
// that somebody looks, and again before it forgets.
// tab → watch → bus (run.watched);  bus (run.text) → run-drafts.ts → the tabs that have this run open
import type { AppEvent, Bus } from "../core/events.ts";
import type { Tab } from "./feeding.ts";
import type { Outgoing } from "./outgoing.ts";
import { createRunDrafts, type RunDraftsOptions } from "./run-drafts.ts";

export interface RunWatch {
  see(event: AppEvent): void;
  /** This tab looks at that run from now on; null: at none. False: there is no such tab. */
  watch(tabId: string, runId: string | null): boolean;
  /** Says again which runs are looked at. */
  rewatch(): void;
}

export interface RunWatchOptions extends Omit<RunDraftsOptions, "isWatched" | "onDraft"> {
  tabs: ReadonlySet<Tab>;
  bus: Bus;
  outgoing: Pick<Outgoing, "event">;
}

export function createRunWatch({ tabs, bus, outgoing, ...options }: RunWatchOptions): RunWatch {
  const tabsAt = (runId: string): Tab[] => [...tabs].filter((tab) => tab.run === runId);
  const send = (tab: Tab, runId: string): void => {
    const draft = drafts.draft(runId);
    // One that is behind gets the next one; but that it is over is said once.
    if (tab.stream.hasRoom() || (draft.html === "" && draft.thoughts === "")) tab.stream.send(outgoing.event("run.draft", draft));
  };
  const drafts = createRunDrafts({
    ...options,
    isWatched: (runId) => tabsAt(runId).length > 0,
    onDraft: (runId) => tabsAt(runId).forEach((tab) => void send(tab, runId)),
  });
  return {
    see: drafts.see,
    watch(id, runId) {
      const tab = [...tabs].find((one) => one.id === id);
      if (tab === undefined) return false;
      tab.run = runId;
      if (runId === null) return true;
      send(tab, runId);
      bus.emit({ type: "run.watched", runId });
      return true;
    },
    rewatch() {
      for (const runId of new Set([...tabs].flatMap(({ run }) => run ?? []))) bus.emit({ type: "run.watched", runId });
    },
  };
}
