// The other half of readable.ts, a process of its own: one page on stdin, its text on stdout. A hostile page can keep
// the parser busy for minutes or fill its memory, and a thread that runs out of memory takes the gateway with it.
import { text } from "node:stream/consumers";
import { Defuddle } from "defuddle/node";
import { parseHTML } from "linkedom";
import type { Page, Readable } from "./readable.ts";

const page = JSON.parse(await text(process.stdin)) as Page;
const { document } = parseHTML(page.html);
// Without these two the extractor's fallbacks for other people's pages would go out to the network, unguarded.
const offline = { useAsync: false, fetch: () => Promise.reject(new Error("no network here")) };
const { title, content } = await Defuddle(document, page.url, { markdown: true, removeImages: true, ...offline });
process.stdout.write(JSON.stringify({ title, text: content } satisfies Readable));
