// The page's own files, by name: a fixed list, so no path from a request ever reaches the disk. Public, because they
// hold nothing of the gateway's; the page asks for everything else with its cookie.
import type { Route } from "./http.ts";

const FOLDER = new URL("./page/", import.meta.url);
const SCRIPT = "text/javascript; charset=utf-8";
const STYLE = "text/css; charset=utf-8";

const FILES: readonly { path: string; file: string; type: string }[] = [
  { path: "/", file: "page.html", type: "text/html; charset=utf-8" },
  { path: "/favicon.svg", file: "favicon.svg", type: "image/svg+xml" },
  ...["page.css", "chat.css", "message.css", "markdown.css", "sidebar.css", "run-panel.css", "run-log.css"].map((file) => ({
    path: `/${file}`,
    file,
    type: STYLE,
  })),
  ...[
    "page.js",
    "chat.js",
    "message-list.js",
    "composer.js",
    "sidebar.js",
    "pairing.js",
    "machines.js",
    "browsers.js",
    "run-list.js",
    "run-panel.js",
    "run-detail.js",
    "run-log.js",
    "run-words.js",
    "roving.js",
    "sign-in.js",
    "wire.js",
    "dom.js",
    "words.js",
  ].map((file) => ({ path: `/${file}`, file, type: SCRIPT })),
];

export function createPageRoutes(): Route[] {
  return FILES.map(({ path, file, type }) => ({
    method: "GET",
    path,
    access: "public",
    handle: () => ({ status: 200, file: new URL(file, FOLDER), headers: { "content-type": type } }),
  }));
}
