// What each action of the board does with a run (runs-actions.js says which there are). `view` is that of runs-view.js.
import { isUnfinished } from "./run-words.js";

const doing = {
  open: (view, { id }) => view.hooks.onOpen(id),
  // On a phone the list of questions is behind the menu; the run itself shows its own.
  answer: (view, { id }) => (matchMedia("(max-width: 820px)").matches ? view.hooks.onOpen(id) : view.hooks.onAnswer(id)),
  stop: (view, run) => stop(view, [run]),
  again: (view, run) => view.hooks.onAgain(run),
  retry: (view, { id }) => void view.steer.retry(id),
  select: (view, { id }) => select(view, id),
  compare: (view, { id }) =>
    view.compared === null || view.compared === id ? compare(view, view.compared === id ? null : id) : showTwo(view, view.compared, id),
  send: (view, run) =>
    view.sheet.askWords(
      {
        title: isUnfinished(run) ? `Tell “${run.label}” something` : `Give “${run.label}” more to do`,
        label: "Message",
        hint: isUnfinished(run) ? "It reads it at its next step." : "It goes on in its session and announces again.",
        button: "Send",
      },
      (text) => void view.steer.send(run.id, text),
    ),
  raise(view, run) {
    // The announcement's own button has no question either: it says how much.
    if (run.goOn !== null) return void view.steer.raise(run.id, { amount: "x2", generation: run.generation });
    const ask = {
      title: `Raise the budget of “${run.label}”`,
      label: "By how much",
      hint: "+0.50 for USD, +20k for tokens, x2 for twice as much",
      button: "Raise",
      value: "x2",
    };
    view.sheet.askWords(ask, (amount) => void view.steer.raise(run.id, { amount }));
  },
};

export function act(view, name, run) {
  // As it is by now: the menu may have stood open for a while.
  doing[name](view, view.data.find(run.id) ?? run);
}

export async function stop(view, runs) {
  const below = await view.steer.below(runs.map(({ id }) => id));
  view.sheet.confirmStop(runs, below, async () => {
    if ((await view.steer.stop(runs.map(({ id }) => id))) !== null) select(view, null);
  });
}

/** Null: none any more. */
export function select(view, id) {
  if (id === null) view.selected.clear();
  else if (!view.selected.delete(id)) view.selected.add(id);
  view.draw();
}

export function compare(view, id) {
  view.compared = id;
  view.draw();
}

export function showTwo(view, one, other) {
  view.compared = null;
  view.hooks.onPlace({ run: one, other }, true);
}
