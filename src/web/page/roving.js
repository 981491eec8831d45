// A long list as one stop of the Tab key: the arrows, Home and End move inside, and only the item one is at can be tabbed
// to, with the buttons that belong to it. Otherwise a hundred runs would stand between the keyboard and the chat.

const STEPS = {
  ArrowDown: (at) => at + 1,
  ArrowUp: (at) => at - 1,
  Home: () => 0,
  End: (_at, count) => count - 1,
};

/** `selector` finds the links of `list`; call what it returns after each change of the list. */
export function createRoving(list, selector) {
  const links = () => [...list.querySelectorAll(selector)];
  const place = (here) => {
    for (const link of links()) {
      const tabIndex = link === here ? 0 : -1;
      link.tabIndex = tabIndex;
      for (const button of link.closest("li").querySelectorAll("button")) button.tabIndex = tabIndex;
    }
  };
  list.addEventListener("focusin", (event) => place(event.target.closest("li")?.querySelector(selector) ?? null));
  list.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    const all = links();
    const at = all.indexOf(event.target);
    if (step === undefined || at === -1 || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    all[Math.max(0, Math.min(step(at, all.length), all.length - 1))].focus();
  });
  return () => {
    const all = links();
    const here = list.contains(document.activeElement) ? document.activeElement.closest("li")?.querySelector(selector) : null;
    place(here ?? all.find((link) => link.hasAttribute("aria-current")) ?? all[0] ?? null);
  };
}
