// A run once more (RP1): the same, or with another model or task, whichever channel it was asked for on. Its result is announced there.
import { byId, setText } from "./dom.js";
import { getJson, SignedOut } from "./wire.js";

const MAX_TASK = 50_000;

/** `steer.again(id, changes)` resolves with null when it was not taken; `onSignedOut()`. */
export function createRunAgain({ steer, onSignedOut }) {
  const view = { run: null, task: null, isBusy: false };
  const dialog = byId("again");
  byId("again-form").addEventListener("submit", (event) => {
    event.preventDefault();
    void send(view, steer);
  });
  for (const id of ["again-close", "again-cancel"]) byId(id).addEventListener("click", () => dialog.close());
  return {
    async open(run) {
      dialog.showModal();
      byId("again-title").focus();
      // Closed by mistake: what was written is still there.
      if (view.run?.id === run.id && view.task !== null) return;
      Object.assign(view, { run, task: null });
      fill("", "", "");
      try {
        const { task, model } = await getJson(`/api/runs/${run.id}/task`);
        if (view.run !== run) return;
        view.task = task;
        byId("again-model").placeholder = model;
        fill("", task ?? "", task === null ? "Its task is on record no more: it was removed some time after it ended." : "");
      } catch (error) {
        if (error instanceof SignedOut) {
          dialog.close();
          return onSignedOut();
        }
        say(`That did not work: ${error.message}`);
      }
    },
  };
}

function fill(model, task, problem) {
  byId("again-model").value = model;
  byId("again-task").value = task;
  say(problem);
}

function say(problem) {
  byId("again-problem").hidden = problem === "";
  setText(byId("again-problem"), problem);
}

async function send(view, steer) {
  const { run, task } = view;
  if (view.isBusy || run === null || task === null) return;
  const model = byId("again-model").value.trim();
  const wanted = byId("again-task").value.trim();
  const isOther = wanted !== task.trim();
  if (wanted === "") return say("Say what it should do.");
  if (/\s/.test(model)) return say("The name of a model has no blanks, such as anthropic/claude-sonnet-5.");
  if (isOther && wanted.length > MAX_TASK) return say(`A changed task has at most ${MAX_TASK.toLocaleString()} characters.`);
  view.isBusy = true;
  // Said here: the window lies over the toast.
  const answer = await steer.again(run.id, { ...(model === "" ? {} : { model }), ...(isOther ? { task: wanted } : {}) }, say);
  view.isBusy = false;
  if (answer === null) return;
  view.run = null;
  byId("again").close();
}
