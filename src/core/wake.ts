// A turn that no message of a person asked for (GR4). It waits in the inbox like one, so that it comes after what is being answered,
// survives a kill and is worked on once; as an update of ours, under a name no platform gives to a field of its own.
import type { Inbound, Wake } from "./message.ts";
import type { Person } from "./question.ts";

const FIELD = "herald/wake";

export const wakeRaw = (wake: Wake): unknown => ({ [FIELD]: wake });

export function readWake(raw: unknown): Inbound | null {
  if (typeof raw !== "object" || raw === null || !(FIELD in raw)) return null;
  const wake = raw[FIELD] as Wake;
  return { kind: "message", address: wake.address, sender: wake.person ?? NOBODY, text: wake.text, mentioned: true, wake };
}

const NOBODY: Person = { id: "" };
