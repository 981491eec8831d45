// What a child writes meanwhile: told to who looks, in this process and beside it, and never twice or stale.
import { expect, it } from "vitest";
import { type AppEvent, createBus, crosses } from "../../../src/core/events.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { createTextIn, createTextOut, isText } from "../../../src/stores/postgres/text-stream.ts";
import { createChildWords } from "../../../src/subagents/child-words.ts";
import { createManualClock } from "../../support/manual-clock.ts";

function rig() {
  const clock = createManualClock();
  const bus = createBus((error) => expect.unreachable(String(error)));
  const words = createChildWords({ bus, clock, log: silentLogger });
  const told: string[] = [];
  bus.on((event) => event.type === "run.text" && void told.push(`${event.what}: ${event.text}`));
  const look = () => bus.emit({ type: "run.watched", runId: "r" });
  return { clock, bus, words, told, look, signal: new AbortController().signal };
}

it("[WB5] for nobody nothing is told; who comes reads what was written before, and then what is new, a few times a second", async () => {
  const { clock, words, told, look, signal } = rig();
  const one = words.begin("r", signal);
  one.say("thoughts", "hm");
  one.say("text", "One");
  await clock.advance(1_000);
  expect(told).toEqual([]);
  look();
  await clock.advance(100);
  expect(told.splice(0)).toEqual(["thoughts: hm", "text: One"]);
  for (const text of ["One t", "One tw", "One two"]) one.say("text", text);
  await clock.advance(100);
  expect(told.splice(0)).toEqual(["text: One two"]);
  // Nobody said again that somebody looks.
  await clock.advance(60_000);
  one.say("text", "One two three");
  await clock.advance(1_000);
  expect(told).toEqual([]);
});

it("[WB5] that it is over is told once, also to who came in the same moment, and of what nobody heard not at all", async () => {
  const { clock, words, told, look, signal } = rig();
  const one = words.begin("r", signal);
  one.say("text", "unheard");
  one.clear();
  expect(told).toEqual([]);
  look();
  one.say("text", "heard");
  await clock.advance(100);
  look();
  one.clear();
  await clock.advance(1_000);
  expect(told.splice(0)).toEqual(["text: heard", "text: "]);
  one.say("text", "again");
  await clock.advance(100);
  one.end();
  expect(told.splice(0)).toEqual(["text: again", "text: "]);
  // Another attempt begins with nothing.
  words.begin("r", signal);
  look();
  await clock.advance(100);
  expect(told).toEqual([]);
});

it("[WB5] between processes it goes as what is new, and its end with it", async () => {
  const { clock, bus, words, look, signal } = rig();
  const sent: AppEvent[] = [];
  const out = createTextOut(clock, (event) => sent.push(event));
  bus.on((event) => isText(event) && crosses(event) && out(event));
  const one = words.begin("r", signal);
  look();
  const long = "a word or two ".repeat(200);
  for (const text of ["a word", long, `${long}more`]) {
    one.say("text", text);
    await clock.advance(300);
  }
  one.clear();
  await clock.advance(300);
  expect(sent.every((event) => isText(event) && event.text.length <= 1_000)).toBe(true);
  const hear = createTextIn();
  const heard = sent.map(hear).map((event) => (event !== null && isText(event) ? event.text : null));
  expect(heard[0]).toBe("a word");
  expect(heard).toContain(long);
  expect(heard.slice(-2)).toEqual([`${long}more`, ""]);
  expect(crosses({ type: "run.watched", runId: "r" })).toBe(true);
});
