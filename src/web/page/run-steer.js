// Steering runs of every channel: each by a route of its own, and what became of it said in a toast. What comes of the run is announced
// where it was asked for.
import { toast } from "./dom.js";
import { getJson, postJson, postOnce, SignedOut } from "./wire.js";

/** `onSignedOut()`. Each resolves with Herald's answer, or null when it did not work, which was said then. */
export function createSteering({ onSignedOut }) {
  const attempt = async (work, onProblem = toast) => {
    try {
      const answer = await work();
      if (answer.text !== undefined) toast(answer.text);
      return answer;
    } catch (error) {
      if (error instanceof SignedOut) onSignedOut();
      else onProblem(error.status === 409 ? error.message : `That did not work: ${error.message}`);
      return null;
    }
  };
  const post = (id, action, body, onProblem) => attempt(() => postJson(`/api/runs/${id}/${action}`, body), onProblem);
  return {
    stop: ([id, ...also]) => post(id, "stop", { also }),
    send: (id, text) => post(id, "send", { text }),
    /** `changes`: another model or task, where it is to be another. `onProblem(text)`: instead of a toast. */
    again: (id, changes, onProblem) => attempt(() => postOnce(`/api/runs/${id}/again`, changes), onProblem),
    raise: (id, wanted = {}) => post(id, "raise", wanted),
    retry: (id) => post(id, "retry", {}),
    /** How many unfinished ones a stop of these would end besides. */
    async below(ids) {
      const counts = await Promise.all(ids.map((id) => attempt(() => getJson(`/api/runs/${id}/below`))));
      return counts.reduce((sum, answer) => sum + (answer?.count ?? 0), 0);
    },
  };
}
