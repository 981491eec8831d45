// Runs → the lines of the board, from top to bottom: as trees by requester under what they are to people, by group, by chat. Pure.
import { byPlace } from "./runs-data.js";

/** Deeper than agents may grow; rows that name each other lead nowhere. */
const MAX_DEPTH = 20;
const SECTIONS = { asking: "Needs you", blocked: "Needs you", live: "At work", ended: "Ended" };

/**
 * `rows` in order, `above`: by id, those that sent them out and don't fit themselves. `folded`: keys of what is shut. Lines are
 * `{key, kind: "head", title, count, live, isOpen}` and `{key, kind: "run", run, level, isParent, isOpen, isContext, top}`.
 */
export function layOut(view, rows, { above, folded, nameOf }) {
  if (view === "timeline") return rows.map((run) => lineOf(run, { level: 1, top: null }));
  const sections = view === "tree" ? bySection(rows, above) : byName(rows, view, nameOf);
  const lines = [];
  for (const { key, title, trees, count, live } of sections) {
    const isOpen = !folded.has(key);
    lines.push({ key, kind: "head", title, count, live: live === count ? 0 : live, isOpen });
    if (isOpen) for (const tree of trees) push(lines, tree, { level: 2, folded, top: key });
  }
  return lines;
}

const lineOf = (run, { level, top, isParent = false, isOpen = false, isContext = false }) => ({
  ...{ key: run.id, kind: "run", run, level, isParent, isOpen, isContext, top },
});

function push(lines, { run, children, isContext }, { level, folded, top }) {
  const isOpen = !folded.has(run.id);
  lines.push(lineOf(run, { level, top, isParent: children.length > 0, isOpen, isContext }));
  if (isOpen) for (const child of children) push(lines, child, { level: level + 1, folded, top: run.id });
}

const isLive = ({ endedAt, state }) => endedAt === null && ["queued", "running", "waiting"].includes(state);

/** A tree stands where the first of its runs does. */
function bySection(rows, above) {
  const sections = new Map();
  for (const tree of toTrees(rows, above)) {
    const title = SECTIONS[tree.best.rank];
    const section = sections.get(title) ?? { key: `section:${title}`, title, trees: [], count: 0, live: 0 };
    sections.set(title, section);
    section.trees.push(tree);
    section.count += tree.size;
    section.live += tree.live;
  }
  return [...sections.values()];
}

function toTrees(rows, above) {
  const byId = new Map(rows.map((run) => [run.id, run]));
  const forest = {
    nodes: new Map(),
    trees: [],
    parentOf: (run) => byId.get(run.parentId) ?? above.get(run.parentId),
    fits: (run) => byId.has(run.id),
  };
  for (const run of rows) {
    const node = nodeOf(forest, run);
    hang(forest, node);
    const top = topOf(node);
    if (top.size === 0 || byPlace(run, top.best) < 0) top.best = run;
    top.size += 1;
    if (isLive(run)) top.live += 1;
  }
  return forest.trees;
}

function nodeOf({ nodes, fits }, run) {
  const node = nodes.get(run.id) ?? { run, children: [], isContext: !fits(run), best: run, size: 0, live: 0, holder: null };
  nodes.set(run.id, node);
  return node;
}

/** Under the one that sent it out, and that one under its own, up to the first that hangs already. A top holds itself. */
function hang(forest, node) {
  for (let at = node, depth = 0; at.holder === null && depth < MAX_DEPTH; depth++) {
    const parent = forest.parentOf(at.run);
    at.holder = parent === undefined ? at : nodeOf(forest, parent);
    (parent === undefined ? forest.trees : at.holder.children).push(at);
    at = at.holder;
  }
}

function topOf(node) {
  let top = node;
  for (let depth = 0; top.holder !== top && top.holder !== null && depth < MAX_DEPTH; depth++) top = top.holder;
  return top;
}

/** Flat inside: those of one group have one requester, and a chat is read by time. */
function byName(rows, view, nameOf) {
  const sections = new Map();
  for (const run of rows) {
    const key = view === "chats" ? `chat:${run.sessionKey}` : run.group === null ? "group:" : `group:${run.requesterKey} ${run.group}`;
    const title = view === "chats" ? nameOf(run) : (run.group ?? "Without a group");
    const section = sections.get(key) ?? { key, title, trees: [], count: 0, live: 0 };
    sections.set(key, section);
    section.trees.push({ run, children: [], isContext: false });
    section.count += 1;
    if (isLive(run)) section.live += 1;
  }
  // What belongs to none comes behind what does.
  return [...sections.values()].sort((one, other) => Number(one.key === "group:") - Number(other.key === "group:"));
}
