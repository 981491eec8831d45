// Markdown with code in colour and formulas, for the rendering thread alone: both take long to load, and a formula may take long to draw.
// rendering.ts → markdown-worker.ts → here → markdown.ts
import { hasCode, hasMath, renderMarkdown } from "./markdown.ts";

/** As renderMarkdown, with more. Where that fails (a formula nested too deep), as if there were none. */
export async function renderRich(markdown: string): Promise<string> {
  try {
    const math = hasMath(markdown) ? await import("./math.ts") : null;
    const html = renderMarkdown(markdown, math);
    const coloured = hasCode(markdown) ? (await import("./code-colours.ts")).colourCode(html) : html;
    return math === null ? coloured : math.withoutStyles(coloured);
  } catch {
    return renderMarkdown(markdown);
  }
}
