// What the board's address says: the filters as Herald reads them, and how the list is shown. Pure.

export const STATES = [
  { word: "needs", text: "Needs you" },
  { word: "running", text: "Running" },
  { word: "queued", text: "Queued" },
  { word: "waiting", text: "Waiting" },
  { word: "done", text: "Done" },
  { word: "error", text: "Failed" },
  { word: "timeout", text: "Timed out" },
  { word: "stopped", text: "Stopped" },
  { word: "interrupted", text: "Interrupted" },
];
export const VIEWS = [
  { word: "tree", text: "Tree" },
  { word: "groups", text: "Groups" },
  { word: "chats", text: "Chats" },
  { word: "timeline", text: "Timeline" },
];
const MINUTE_MS = 60_000;
export const ZOOMS = [
  { word: "15m", text: "15 min", ms: 15 * MINUTE_MS },
  { word: "1h", text: "1 hour", ms: 60 * MINUTE_MS },
  { word: "6h", text: "6 hours", ms: 360 * MINUTE_MS },
  { word: "24h", text: "24 hours", ms: 1440 * MINUTE_MS },
  { word: "7d", text: "7 days", ms: 7 * 1440 * MINUTE_MS },
];
export const FILTERS = ["state", "agent", "chat", "channel", "model", "cost", "time", "q"];
const SHOWN = new Map([
  ["view", VIEWS],
  ["zoom", ZOOMS],
]);
/** Herald takes less of each; more would only be too long for a request. A chat is named by its session's key. */
const MAX_VALUE = 300;
const MAX_KEY = 2_048;
const MAX_NAMES = 16;

const known = (name, value) => SHOWN.get(name).some(({ word }) => word === value);

export const viewOf = (query) => (known("view", query.get("view")) ? query.get("view") : "tree");
export const zoomOf = (query) => ZOOMS.find(({ word }) => word === query.get("zoom")) ?? ZOOMS[1];

/** As Herald is asked. Also what is nobody's filter: it says so. */
export function serverQuery(query) {
  const entries = [...query].filter(([name, value]) => !SHOWN.has(name) && value !== "").slice(0, MAX_NAMES);
  return new URLSearchParams(
    entries.map(([name, value]) => [name.slice(0, MAX_VALUE), value.slice(0, name === "chat" ? MAX_KEY : MAX_VALUE)]),
  ).toString();
}

/** What of it only this side knows to make no sense. */
export const droppedHere = (query) =>
  [...SHOWN.keys()]
    .filter((name) => query.has(name) && !known(name, query.get(name)))
    .map((name) => `${name}=${query.get(name).slice(0, 40)}`);

export const statesOf = (query) => (query.get("state") ?? "").split(",").filter((word) => STATES.some((state) => state.word === word));

export const isFiltered = (query) => FILTERS.some((name) => (query.get(name) ?? "") !== "");

/** The next address: without what made no sense, and without what is as it is anyway. */
export function changeQuery(query, changes, dropped) {
  const next = new Map();
  for (const name of [...FILTERS, ...SHOWN.keys()]) {
    const value = changes[name] ?? cleanValue(query, name, dropped);
    if (value !== "" && !(name === "view" && value === "tree")) next.set(name, value);
  }
  return next;
}

function cleanValue(query, name, dropped) {
  if (name === "state") return statesOf(query).join(",");
  return dropped.some((text) => text.startsWith(`${name}=`)) ? "" : (query.get(name) ?? "");
}

/** "Needs you" stands alone: it is no state. */
export function toggleState(query, word) {
  const states = statesOf(query);
  if (states.includes(word)) return states.filter((one) => one !== word).join(",");
  return word === "needs" ? word : [...states.filter((one) => one !== "needs"), word].join(",");
}
