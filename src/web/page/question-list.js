// A list of open questions, in the sidebar or in the panel of a run: cards are kept by id, so that an update never takes the words or
// the focus out of somebody's hands; one that somebody was at and that is over elsewhere says how it ended.
import { toast } from "./dom.js";
import { createQuestionCard } from "./question-card.js";
import { getJson } from "./wire.js";

/** `list` is the element to fill; `hooks` as a card takes them, and `onLeft()`: the last card is gone, and the focus was in it. */
export function createQuestionList(list, hooks) {
  const cards = new Map();
  const drop = (id, card) => {
    cards.delete(id);
    card.drop();
  };
  setInterval(() => {
    for (const card of cards.values()) card.draw();
  }, 1000);
  return {
    show(questions) {
      const open = new Set(questions.map(({ id }) => id));
      const hadFocus = list.contains(document.activeElement);
      for (const [id, card] of cards) {
        if (open.has(id)) continue;
        if (card.isInUse()) void tellEnd(id);
        drop(id, card);
      }
      for (const [n, question] of questions.entries()) {
        const card = cards.get(question.id) ?? createQuestionCard(question, hooks);
        cards.set(question.id, card);
        card.draw();
        if (list.children[n] !== card.node) list.insertBefore(card.node, list.children[n] ?? null);
      }
      if (!hadFocus || list.contains(document.activeElement)) return;
      const [next] = cards.values();
      if (next === undefined) hooks.onLeft();
      else next.focus();
    },
    /** They belong to something that is not shown any more. */
    clear() {
      for (const card of cards.values()) card.node.remove();
      cards.clear();
    },
    /** False: it is not in the list. */
    focus(id) {
      cards.get(id)?.focus();
      return cards.has(id);
    },
  };
}

/** Answered or closed elsewhere while somebody was at it here. */
async function tellEnd(id) {
  try {
    const { outcome } = await getJson(`/api/questions/${id}`);
    if (outcome !== null) toast(outcome);
  } catch {
    toast("This question is over.");
  }
}
