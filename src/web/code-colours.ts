// Code in colour: highlight.js with its common languages. Only classes come out, the colours are in markdown.css. Loaded by the rendering
// thread with the first text that has code (rich-text.ts).
import { createRequire } from "node:module";

/** What is used of it. Its own types bring those of a browser along, for the whole program. */
interface HighlightJs {
  getLanguage(name: string): object | undefined;
  highlight(code: string, options: { language: string; ignoreIllegals: boolean }): { value: string };
}

const require = createRequire(import.meta.url);
// Both forms of it have this name, the one for `require` and the one that is bundled.
const { default: hljs }: { default: HighlightJs } = require("highlight.js/lib/common");

/** Longer code is read elsewhere. */
const MAX_LENGTH = 20_000;
const BLOCK = /<pre><code class="language-([^"]*)">([^<]*)<\/code><\/pre>/g;
const ENTITIES: Readonly<Record<string, string>> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"' };

const unescaped = (html: string): string => html.replace(/&(?:amp|lt|gt|quot);/g, (entity) => ENTITIES[entity] ?? entity);

/** In HTML of micromark, which escapes what the code says: the pattern meets only tags it wrote. A language nobody knows stays plain. */
export const colourCode = (html: string): string =>
  html.replace(BLOCK, (block, language: string, escaped: string) => {
    const name = unescaped(language).toLowerCase();
    // Differences are coloured line by line on the page.
    if (escaped.length > MAX_LENGTH || name === "diff" || hljs.getLanguage(name) === undefined) return block;
    const { value } = hljs.highlight(unescaped(escaped), { language: name, ignoreIllegals: true });
    return `<pre><code class="language-${language}">${value}</code></pre>`;
  });
