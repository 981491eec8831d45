// The views beside the chat: one is on screen at a time. Each is loaded when it is first looked at, and told when it is no longer.
// address → page.js → show(place) → the view's module → its <main>
import { byId, toast } from "./dom.js";

const VIEWS = {
  runs: async () => (await import("./runs-view.js")).createRunsView,
  session: async () => (await import("./session-view.js")).createSessionView,
  usage: async () => (await import("./usage-view.js")).createUsageView,
  setup: async () => (await import("./setup-view.js")).createSetupView,
};

/** `hooks` go to every view. What a view is made of: `show(place)`, `hide()`, `hear(name, data)` for what the stream says. */
export function createViews(hooks) {
  const made = new Map();
  /** What the stream said last of each kind, for one that is opened later. */
  const heard = new Map();
  let current = "chat";

  const make = async (name) => {
    const create = await VIEWS[name]();
    if (!made.has(name)) {
      made.set(name, create(byId(`view-${name}`), hooks));
      for (const [event, data] of heard) made.get(name).hear(event, data);
    }
    return made.get(name);
  };
  const draw = () => {
    for (const name of ["chat", ...Object.keys(VIEWS)]) {
      byId(`view-${name}`).hidden = name !== current;
      // A conversation of another channel has its link in the list of those.
      const link = document.getElementById(`to-${name}`);
      if (name === current) link?.setAttribute("aria-current", "page");
      else link?.removeAttribute("aria-current");
    }
    document.body.dataset.view = current;
  };

  return {
    async show(place) {
      // A run on a page of its own lies over whatever was there.
      const next = place.view === "run" ? current : place.view;
      if (next !== current) made.get(current)?.hide();
      current = next;
      draw();
      if (next === "chat") return;
      try {
        const view = await make(next);
        if (current === next) view.show(place);
      } catch (error) {
        toast(`This view can't be loaded: ${error.message}. Reload the page.`);
      }
    },
    hear(name, data) {
      heard.set(name, data);
      for (const view of made.values()) view.hear(name, data);
    },
  };
}
