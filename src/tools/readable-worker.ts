// The worker half of readable.ts: one page in, Markdown out. It runs apart because a hostile page can keep the
// parser busy for minutes; here it may be killed.
import { parentPort, workerData } from "node:worker_threads";
import { Defuddle } from "defuddle/node";
import { parseHTML } from "linkedom";
import type { Page, Readable } from "./readable.ts";

const page = workerData as Page;
const { document } = parseHTML(page.html);
// Without these two the extractor's fallbacks for other people's pages would go out to the network, unguarded.
const offline = { useAsync: false, fetch: () => Promise.reject(new Error("no network here")) };
const result = await Defuddle(document, page.url, { markdown: true, removeImages: true, ...offline });
parentPort?.postMessage({ title: result.title, text: result.content } satisfies Readable);
