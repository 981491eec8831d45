// Buttons of a chat: what is pressed is sent as the command behind it, and is no message. `state` is that of the open chat (chat.js).
import { byId, newId, toast } from "./dom.js";
import { postJson, SignedOut } from "./wire.js";

/** Resolves with whether it was taken. */
export async function press(state, command) {
  try {
    await postJson(`/api/chats/${state.chat}/messages`, { id: newId(), text: command, kind: "button" });
    return true;
  } catch (error) {
    if (error instanceof SignedOut) state.hooks.onSignedOut();
    else toast(`That did not work: ${error.message}`);
    return false;
  }
}

/** Once for each answer: the same press again would end the sub-agents too, and a double click must not. */
export async function stopAnswer(state) {
  byId("stop").disabled = true;
  if (!(await press(state, "/stop answer"))) byId("stop").disabled = false;
}
