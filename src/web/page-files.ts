// The page's own files and those of the libraries it draws with, by name: a fixed list, so no path from a request ever reaches the
// disk. Public, because they hold nothing of the gateway's; the page asks for everything else with its cookie.
import { isPackaged, ownFile } from "../core/own-files.ts";
import type { Route } from "./http.ts";

const FOLDER = ownFile("src/web/page/");
const SCRIPT = "text/javascript; charset=utf-8";
const STYLE = "text/css; charset=utf-8";

/** One style sheet, `/style.css`, in this order: what comes later wins. uPlot's stands before all of ours. */
const STYLES: readonly string[] = [
  "page.css",
  "chat.css",
  "message.css",
  "message-more.css",
  "markdown.css",
  "code.css",
  "sidebar.css",
  "chats.css",
  "questions.css",
  "run-panel.css",
  "run-log.css",
  "run-parts.css",
  "budgets.css",
  "sheets.css",
  "brief.css",
  "views.css",
  "run-list.css",
  "runs.css",
  "runs-filters.css",
  "runs-bars.css",
  "sessions.css",
  "usage.css",
  "setup.css",
  "files.css",
];

const FILES: readonly { path: string; file: string; type: string }[] = [
  { path: "/", file: "page.html", type: "text/html; charset=utf-8" },
  { path: "/favicon.svg", file: "favicon.svg", type: "image/svg+xml" },
  ...[
    "page.js",
    "chat.js",
    "message-list.js",
    "composer.js",
    "slash.js",
    "message-node.js",
    "last-exchange.js",
    "working-line.js",
    "pressing.js",
    "chat-menu.js",
    "chat-search.js",
    "rename.js",
    "notify.js",
    "shortcuts.js",
    "composer-files.js",
    "message-files.js",
    "sidebar.js",
    "needs-you.js",
    "question-list.js",
    "question-card.js",
    "diff.js",
    "title.js",
    "pairing.js",
    "machines.js",
    "budgets.js",
    "browsers.js",
    "run-list.js",
    "run-panel.js",
    "run-detail.js",
    "run-log.js",
    "run-tool.js",
    "run-draft.js",
    "run-parts.js",
    "run-words.js",
    "run-links.js",
    "run-again.js",
    "run-compare.js",
    "brief.js",
    "brief-editor.js",
    "roving.js",
    "sign-in.js",
    "wire.js",
    "dom.js",
    "words.js",
    "place.js",
    "views.js",
    "view-head.js",
    "run-steer.js",
    "runs-view.js",
    "runs-actions.js",
    "runs-data.js",
    "runs-doing.js",
    "runs-empty.js",
    "runs-filters.js",
    "runs-grid.js",
    "runs-layout.js",
    "runs-query.js",
    "runs-row.js",
    "runs-sheet.js",
    "runs-timeline.js",
    "session-list.js",
    "session-view.js",
    "usage-view.js",
    "usage-plot.js",
    "usage-table.js",
    "usage-words.js",
    "setup-view.js",
    "setup-form.js",
    "setup-fields.js",
    "setup-people.js",
    "setup-section.js",
  ].map((file) => ({ path: `/${file}`, file, type: SCRIPT })),
];

/** Of packages: lit-html's modules import each other by relative paths, so these stand as they stand there. */
const LIBRARIES: readonly { path: string; name: string; type: string }[] = [
  ...["lit-html.js", "directive.js", "directive-helpers.js", "async-directive.js"].map((file) => `lit-html/${file}`),
  ...["guard.js", "live.js", "ref.js", "repeat.js"].map((file) => `lit-html/directives/${file}`),
].map((name) => ({ path: `/lib/${name}`, name, type: SCRIPT }));

/** The package's only small build is no module: one line behind it (page/uplot-export.js) makes it one. */
const PLOT = { style: "uplot/dist/uPlot.min.css", script: "uplot/dist/uPlot.iife.min.js" };

/** All that is served of packages. */
export const PACKAGE_FILES: readonly string[] = [...LIBRARIES.map(({ name }) => name), PLOT.style, PLOT.script];

/** Loaded when their view is first looked at (page/views.js). */
const LATER = /^\/(?:runs-|usage-|setup-|session-view)/;

/** All at once instead of each behind the one that imports it: on a slow line that is one round trip instead of five. */
const PRELOADED = FILES.filter(({ path, type }) => type === SCRIPT && !LATER.test(path))
  .map(({ path }) => `<${path}>; rel=modulepreload`)
  .join(", ");

export function createPageRoutes(): Route[] {
  const own = FILES.map(({ path, file, type }) => ({ path, type, fileOf: () => new URL(file, FOLDER) }));
  const others = LIBRARIES.map(({ path, name, type }) => ({ path, type, fileOf: () => packageFile(name) }));
  const style = {
    path: "/style.css",
    type: STYLE,
    fileOf: () => [packageFile(PLOT.style), ...STYLES.map((file) => new URL(file, FOLDER))],
  };
  const plot = {
    path: "/lib/uplot.js",
    type: SCRIPT,
    fileOf: () => [packageFile(PLOT.script), new URL("uplot-export.js", FOLDER)],
  };
  return [...own, ...others, style, plot].map(({ path, type, fileOf }) => ({
    method: "GET",
    path,
    access: "public",
    handle: () => ({ status: 200, file: fileOf(), headers: { "content-type": type, ...(path === "/" ? { link: PRELOADED } : {}) } }),
  }));
}

/** Wherever its package lies, or as a copy below the page's own; what `import` would take of it is made for Node. */
export function packageFile(name: string): URL {
  if (isPackaged) return new URL(`lib/${name}`, FOLDER);
  const [owner = ""] = name.split("/");
  const entry = import.meta.resolve(owner);
  return new URL(name, entry.slice(0, entry.lastIndexOf(`/${owner}/`) + 1));
}
