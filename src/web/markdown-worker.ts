// Renders long texts beside the event loop: rendering.ts posts Markdown, one text at a time, and gets its HTML.
import { parentPort } from "node:worker_threads";
import { renderMarkdown } from "./markdown.ts";

parentPort?.on("message", (markdown: string) => parentPort?.postMessage(renderMarkdown(markdown)));
