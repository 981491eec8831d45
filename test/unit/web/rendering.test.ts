// Long texts are rendered beside the event loop; one that takes too long is shown as it was written.
import { afterEach, expect, it, vi } from "vitest";
import { renderMarkdown } from "../../../src/web/markdown.ts";
import { createRenderer, type Renderer } from "../../../src/web/rendering.ts";

let renderer: Renderer;
afterEach(() => renderer.stop());

const LONG = `${"Some **bold** words and a [link](https://a.example/).\n\n- one\n- two\n\n".repeat(300)}`.slice(0, 20_000);

it("[WB1] a long text is rendered while the gateway goes on, and comes out as a short one would", async () => {
  renderer = createRenderer();
  let ticks = 0;
  const ticking = setInterval(() => ticks++, 1);
  const html = await renderer.render(LONG);
  clearInterval(ticking);
  expect(html).toBe(renderMarkdown(LONG));
  // Rendered in this thread, not one timer would have fired.
  expect(ticks).toBeGreaterThan(2);
  const several = await Promise.all([renderer.render(`${LONG}1`), renderer.render("*short*"), renderer.render(`${LONG}2`)]);
  expect(several).toEqual([`${LONG}1`, "*short*", `${LONG}2`].map((text) => renderMarkdown(text)));
  expect(several[2]).not.toContain("<pre");
});

it("[WB1] a text that takes too long stays plain, and the next one is rendered again", async () => {
  renderer = createRenderer(1);
  expect(await renderer.render(LONG)).toMatch(/^<pre class="plain">Some \*\*bold\*\*/);
  expect(await renderer.render("*short*")).toBe("<p><em>short</em></p>");
  expect(await renderer.render(LONG)).toContain("Some");
});

it("[WB1] what a thread that was given up still says is shown in no other text's place: the machine slept meanwhile", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    renderer = createRenderer();
    const [first, second] = [renderer.render(`first ${LONG}`), renderer.render(`second ${LONG}`)];
    await Promise.resolve();
    // Its answer comes meanwhile and lies there; the timers that are over are looked at before it.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000);
    vi.advanceTimersByTime(6_000);
    vi.useRealTimers();
    expect(await first).toMatch(/^<pre class="plain">first/);
    expect(await second).toBe(renderMarkdown(`second ${LONG}`));
  } finally {
    vi.useRealTimers();
  }
});
