// What waits for a person, in all chats: the questions with their answers in place, on top of everything else; how many there are,
// in the title of the window and, on a phone, beside the chat's name. There is nothing to see while nobody asks.
import { byId, setText } from "./dom.js";
import { createQuestionList } from "./question-list.js";
import { originText } from "./run-words.js";
import { showCount } from "./title.js";

/** `nameOfChat(chat)`, `onOpen(runId)`, `onSignedOut()`. */
export function createNeedsYou({ nameOfChat, onOpen, onSignedOut }) {
  const view = { questions: [], total: 0 };
  const list = createQuestionList(byId("needs-list"), {
    whereOf: ({ chat, origin }) => (chat === null ? originText({ origin }) : nameOfChat(chat)),
    onOpen,
    onSignedOut,
    onLeft: () => (document.body.classList.contains("drawer-open") ? byId("close-sidebar") : byId("text")).focus(),
  });
  return {
    /** Returns how many more there are than before. */
    show({ questions, total }) {
      const more = total - view.total;
      Object.assign(view, { questions, total });
      byId("needs").hidden = total === 0;
      list.show(questions);
      const left = total - questions.length;
      byId("needs-more").hidden = left <= 0;
      setText(byId("needs-more"), `and ${left} more, once these are answered`);
      setText(byId("needs-count"), String(total));
      const badge = byId("needs-badge");
      badge.hidden = total === 0;
      setText(badge, total === 1 ? "1 needs you" : `${total} need you`);
      // Said once when there is another one, not with every change.
      if (more !== 0) setText(byId("needs-said"), more < 0 ? "" : total === 1 ? "A question needs you." : `${total} questions need you.`);
      showCount(total);
      return more;
    },
    /** To the question of this run. False: it is not among those shown. */
    focusRun(runId) {
      const question = view.questions.find((one) => one.runId === runId);
      return question !== undefined && list.focus(question.id);
    },
  };
}
