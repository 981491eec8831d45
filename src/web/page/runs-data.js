// The runs the board has loaded: page behind page as one scrolls, and from then on only those asked for again that the stream says have
// changed. In Herald's order: what needs a person, what is at work, what has ended, the newest first within each.
import { getJson, SignedOut } from "./wire.js";

const RANKS = ["asking", "blocked", "live", "ended"];
const PAGE_SIZE = 200;
/** More than anybody scrolls through; what lies behind is found by narrowing the search. */
const MAX_LOADED = 20_000;
const MAX_IDS = 100;
const REFRESH_MS = 400;
const TOTALS_MS = 3_000;
/** Counting what a text stands in reads every task. */
const SEARCHED_TOTALS_MS = 15_000;

export const byPlace = (one, other) => RANKS.indexOf(one.rank) - RANKS.indexOf(other.rank) || other.seq - one.seq;

/** `onChange()`, `onSignedOut()`. */
export function createRunsData({ onChange, onSignedOut }) {
  const data = { hooks: { onChange, onSignedOut }, query: null, changed: new Set(), timer: null, totalsTimer: null, ...nothing() };
  return {
    now: data,
    /** Other filters: all of it anew. */
    open(query) {
      if (query === data.query) return;
      clearTimeout(data.totalsTimer);
      Object.assign(data, { query, totalsTimer: null, ...nothing() });
      void load(data);
      void loadTotals(data);
    },
    more: () => void loadMore(data),
    canLoad: () => data.next !== null && data.rows.size < MAX_LOADED,
    isFull: () => data.rows.size >= MAX_LOADED,
    find: (id) => data.rows.get(id) ?? data.above.get(id) ?? null,
    sorted: () => [...data.rows.values()].sort(byPlace),
    /** This one changed. */
    changed(id) {
      if (data.query === null) return;
      if (data.isLoading) data.late.add(id);
      hearChange(data, id);
      data.totalsTimer ??= setTimeout(
        () => {
          data.totalsTimer = null;
          void loadTotals(data);
        },
        new URLSearchParams(data.query).has("q") ? SEARCHED_TOTALS_MS : TOTALS_MS,
      );
    },
    /** Whatever was said meanwhile is unknown. */
    reload() {
      if (data.query === null) return;
      void load(data);
      void loadTotals(data);
    },
    /** Nobody looks. */
    close() {
      data.query = null;
      clearTimeout(data.timer);
      clearTimeout(data.totalsTimer);
      Object.assign(data, { timer: null, totalsTimer: null });
      data.changed.clear();
    },
  };
}

const nothing = () => ({
  rows: new Map(),
  above: new Map(),
  next: null,
  pages: 1,
  dropped: [],
  totals: null,
  isLoading: true,
  /** The last loading of all of it, and what changed since it began. */
  load: null,
  late: new Set(),
  problem: "",
  lastSize: null,
});

const pathOf = (query, more) => `/api/board?${new URLSearchParams([...new URLSearchParams(query), ...Object.entries(more)])}`;

/** `work` for the query as it is; what comes when it is another one is dropped, as it is when all is being loaded anew meanwhile. */
async function ask(data, work, take) {
  const { query, load: own } = data;
  const isOld = () => data.query !== query || data.load !== own;
  try {
    const answer = await work();
    if (isOld()) return;
    take(answer);
    data.problem = "";
  } catch (error) {
    if (isOld()) return;
    if (error instanceof SignedOut) return data.hooks.onSignedOut();
    data.problem = `The runs can't be loaded: ${error.message}`;
  }
  data.hooks.onChange();
}

/** As many pages as there were, put in the place of the old ones together: whoever has scrolled down stays where they are. */
async function load(data) {
  const own = {};
  const { query, pages: wanted } = data;
  Object.assign(data, { load: own, isLoading: true, late: new Set() });
  await ask(
    data,
    () => readPages(query, wanted),
    (pages) => {
      Object.assign(data, {
        rows: new Map(),
        above: new Map(),
        next: pages.at(-1).next,
        dropped: pages[0].dropped,
        lastSize: null,
        pages: pages.length,
      });
      for (const { rows, above } of pages) put(data, rows, above);
      // It changed while they were read: a page may have been older.
      for (const id of data.late) hearChange(data, id);
    },
  );
  // Another one is being loaded: it is not over with this one.
  if (data.query !== query || data.load !== own) return;
  data.isLoading = false;
  data.hooks.onChange();
}

async function readPages(query, wanted) {
  const pages = [];
  let next = null;
  do {
    const page = await getJson(pathOf(query, next === null ? { limit: PAGE_SIZE } : { limit: PAGE_SIZE, after: next }));
    pages.push(page);
    next = page.next;
  } while (next !== null && pages.length < wanted);
  return pages;
}

async function loadMore(data) {
  if (data.isLoading || data.next === null || data.rows.size >= MAX_LOADED) return;
  const { query, load: own } = data;
  data.isLoading = true;
  const read = () => getJson(pathOf(query, { limit: PAGE_SIZE, after: data.next }));
  await ask(data, read, ({ rows, above, next }) => {
    data.next = next;
    data.pages++;
    put(data, rows, above);
  });
  if (data.query !== query || data.load !== own) return;
  data.isLoading = false;
  data.hooks.onChange();
}

function hearChange(data, id) {
  data.changed.add(id);
  data.timer ??= setTimeout(() => void refresh(data), REFRESH_MS);
}

function put(data, rows, above) {
  for (const row of rows) {
    data.rows.set(row.id, row);
    data.above.delete(row.id);
  }
  for (const row of above) if (!data.rows.has(row.id)) data.above.set(row.id, row);
}

/** Of what lies behind the last page nothing is shown yet, so a change there is none here. */
function isBehind({ next }, row) {
  if (next === null) return false;
  const [rank, seq] = next.split(".");
  return byPlace({ rank, seq: Number(seq) }, row) < 0;
}

async function refresh(data) {
  data.timer = null;
  const ids = [...data.changed].slice(0, MAX_IDS);
  for (const id of ids) data.changed.delete(id);
  if (ids.length === 0 || data.query === null) return;
  await ask(
    data,
    () => getJson(pathOf(data.query, { ids: ids.join(",") })),
    ({ rows }) => {
      const found = new Set(rows.map(({ id }) => id));
      // It does not fit any more, or is gone.
      for (const id of ids) if (!found.has(id)) data.rows.delete(id);
      for (const row of rows) if (data.rows.has(row.id) || !isBehind(data, row)) data.rows.set(row.id, row);
    },
  );
  await refreshAbove(data, ids);
  if (data.changed.size > 0) data.timer ??= setTimeout(() => void refresh(data), REFRESH_MS);
}

/** Those that only stand there for the tree don't have to fit. */
async function refreshAbove(data, ids) {
  const missing = [...data.rows.values()].flatMap(({ parentId }) => (parentId === null || data.rows.has(parentId) ? [] : [parentId]));
  const wanted = [...new Set(missing)].filter((id) => !data.above.has(id) || ids.includes(id)).slice(0, MAX_IDS);
  if (wanted.length === 0 || data.query === null) return;
  await ask(
    data,
    () => getJson(pathOf("", { ids: wanted.join(",") })),
    ({ rows }) => {
      for (const row of rows) data.above.set(row.id, row);
    },
  );
}

async function loadTotals(data) {
  const { query } = data;
  if (query === null) return;
  try {
    const totals = await getJson(`/api/board/totals?${query}`);
    if (data.query !== query) return;
    data.totals = totals;
    data.hooks.onChange();
  } catch (error) {
    if (error instanceof SignedOut && data.query === query) data.hooks.onSignedOut();
  }
}
