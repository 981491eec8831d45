// `herald start`. What it starts is main.ts, which nothing else here loads.
import { NODE_ROLES } from "../core/node-role.ts";
import { type Call, EXIT, textOf, UsageError } from "./command.ts";

export async function start(call: Call): Promise<number> {
  const asked = textOf(call, "role");
  const role = asked === undefined ? undefined : NODE_ROLES.find((one) => one === asked);
  if (asked !== undefined && role === undefined) throw new UsageError(`--role is one of ${NODE_ROLES.join(", ")}.`);
  if (call.words.length > 0) throw new UsageError(`start takes no further words: ${JSON.stringify(call.words.join(" "))}.`);
  const { startGateway } = await import("../main.ts");
  await startGateway({ version: call.version, role });
  return EXIT.fine;
}
