// Renders texts beside the event loop: rendering.ts posts Markdown, one text at a time, and gets its HTML.
import { parentPort } from "node:worker_threads";
import { renderRich } from "./rich-text.ts";

parentPort?.on("message", async (markdown: string) => parentPort?.postMessage(await renderRich(markdown)));
