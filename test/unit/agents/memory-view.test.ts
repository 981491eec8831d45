// Memory as a session first read it, and what was appended since.
import { expect, it } from "vitest";
import { createMemoryViews } from "../../../src/agents/memory-view.ts";

const section = (text: string, name = "AGENT.md") => ({ name, text, cut: false });

it("[SE8] what is appended stands apart, and what the session read first stays as it was", () => {
  const views = createMemoryViews();
  const first = [section("- likes tea\n")];
  expect(views.of("s", first)).toEqual({ settled: first, added: [] });
  const grown = [section("- likes tea\n- has a cat\n"), section("new", "pins/a.md")];
  const expected = { settled: first, added: [section("- has a cat\n"), section("new", "pins/a.md")] };
  expect(views.of("s", grown)).toEqual(expected);
  expect(views.of("s", grown)).toEqual(expected);
  expect(views.of("another", grown)).toEqual({ settled: grown, added: [] });
});

it("[ME1] what a person changed or removed is gone at once", () => {
  const views = createMemoryViews();
  for (const edited of [[section("- likes coffee\n")], [section("- likes")], []]) {
    views.of("s", [section("- likes tea\n")]);
    expect(views.of("s", edited)).toEqual({ settled: edited, added: [] });
  }
});

it("[SE8] additions that have grown long are settled, and sessions nobody reads any more are forgotten", () => {
  const views = createMemoryViews();
  views.of("s", [section("")]);
  const long = [section("x".repeat(4_001))];
  expect(views.of("s", long)).toEqual({ settled: long, added: [] });
  views.of("old", [section("a")]);
  for (let n = 0; n < 500; n++) views.of(`session ${n}`, []);
  expect(views.of("old", [section("ab")])).toEqual({ settled: [section("ab")], added: [] });
});
