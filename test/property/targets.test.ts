// Targets on real stores: any text finds a run below the caller's own session, by a form CM3 knows, or says in a sentence why not.
import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Run } from "../../src/core/run.ts";
import { findTarget } from "../../src/subagents/targets.ts";
import { createManualClock } from "../support/manual-clock.ts";
import { CHAT_KEY } from "../support/runs.ts";
import { createStage, okReply, type Stage } from "../support/stage.ts";
import { cases, damagedText, hostileText } from "./cases.ts";

const OTHER = "agent:main:web:dm:11111111-1111-4111-8111-111111111111";
const LABELS = ["first", "Second One", "twin", "twin", '"quoted"', "12", "last", "__proto__", "ümlaut 👋"];
let stage: Stage;
let own: Run[];
let theirs: Run[];

beforeAll(async () => {
  const clock = createManualClock();
  stage = await createStage({ clock, call: async () => okReply("x"), idle: true });
  own = [];
  for (const label of LABELS) {
    await clock.advance(1);
    own.unshift(await stage.spawn({ label }));
  }
  theirs = [await stage.spawn({ label: "theirs" }, { sessionKey: OTHER }), await stage.spawn({ label: "first" }, { sessionKey: OTHER })];
  await stage.stores.db.transaction([], (tx) =>
    stage.stores.listings.save(
      tx,
      CHAT_KEY,
      own.slice(0, 5).map((run) => run.id),
    ),
  );
});
afterAll(() => stage[Symbol.asyncDispose]());

/** Does the text name this run in one of the forms of CM3? */
function isNamed(run: Run, text: string): boolean {
  // NUL is dropped wherever a text meets the database; nobody can type it.
  const plain = text.replaceAll("\0", "").trim();
  const words = [plain, plain.replace(/^"(.*)"$/, "$1")].map((word) => word.toLowerCase());
  const number = own.indexOf(run) + 1;
  return words.some(
    (word) =>
      (word === "last" && run === own[0]) ||
      (/^#?\d{1,4}$/.test(word) && number <= 5 && Number(word.replace("#", "")) === number) ||
      word === run.childKey ||
      word === run.label.toLowerCase() ||
      (word.length >= 4 && run.id.startsWith(word)),
  );
}

it("[CM3][TL4] any text finds the caller's own run that it names, or gets one short sentence; nobody else's is ever found", async () => {
  // Runs exist only inside a test; their names are picked by number.
  const form = fc.tuple(fc.nat(), fc.nat(9), fc.nat(20)).map(([n, how, length]) => (): string => {
    const all = [...own, ...theirs];
    const run = all[n % all.length] as Run;
    const forms = [String(n % 12), `#${n % 12}`, "last", run.label, `"${run.label}"`, run.id, run.id.slice(0, length), run.childKey];
    return forms[how] ?? run.label.toUpperCase();
  });
  let found = 0;
  await fc.assert(
    fc.asyncProperty(form, fc.nat(1), damagedText(fc.constant("x")), hostileText, async (name, isPlain, damage, noise) => {
      const text = isPlain === 1 ? name() : damage.replace("x", () => name()) || noise;
      const answer = await findTarget(stage.stores, CHAT_KEY, text);
      if ("run" in answer) {
        found++;
        const mine = own.find((run) => run.id === answer.run.id);
        if (mine === undefined || !isNamed(mine, text)) throw new Error(`${JSON.stringify(text)} found ${answer.run.label}`);
      } else expect(answer.problem.length > 20 && answer.problem.length < 400).toBe(true);
    }),
    cases(2), // each asks the database
  );
  expect(found).toBeGreaterThan(0);
});

it("[TL4] somebody else's run and one that does not exist get the same answer", async () => {
  const [run] = theirs as [Run];
  await fc.assert(
    fc.asyncProperty(fc.nat(35), fc.constantFrom("", " ", '"'), async (at, wrap) => {
      const digit = run.id[at] === "-" ? "-" : run.id[at] === "0" ? "1" : "0";
      const unknown = run.id.slice(0, at) + digit + run.id.slice(at + 1);
      for (const name of [(id: string) => id, () => run.childKey, () => "theirs"]) {
        const [real, made] = [name(run.id), name(unknown)].map((text) => wrap + text + wrap);
        const strip = (text: string) => text.replaceAll(run.id, "?").replaceAll(unknown, "?");
        const [one, two] = await Promise.all([real, made].map((text) => findTarget(stage.stores, CHAT_KEY, text ?? "")));
        if (one === undefined || two === undefined || !("problem" in one) || !("problem" in two)) throw new Error("found");
        expect(strip(one.problem)).toBe(strip(two.problem));
      }
    }),
    cases(50),
  );
});
