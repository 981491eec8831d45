// A command of `herald` in this process: for its words alone, where a process for each would only take time.
import { PassThrough } from "node:stream";
import { readWords, UsageError, usageOf } from "../../src/cli/command.ts";
import { COMMANDS } from "../../src/cli/table.ts";
import { createTerminal, type Streams } from "../../src/cli/terminal.ts";

export interface Called {
  /** As the process would end. */
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Stdin stays open, and nobody writes to it. */
export async function callCommand(
  [name = "", ...args]: readonly string[],
  at: { cwd: string; env: Record<string, string> },
): Promise<Called> {
  const command = COMMANDS.find((one) => one.name === name);
  if (command === undefined) throw new Error(`there is no command ${name}`);
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const terminal = createTerminal({ stdin, stdout, stderr } as unknown as Streams, { ...at, ended: new AbortController().signal });
  const said = (stream: PassThrough): string => stream.read()?.toString() ?? "";
  try {
    const { words, flags } = readWords(command, args);
    const code = await command.run({ words, flags, terminal, version: "0.0.0", usage: usageOf(command, `herald ${name}`) });
    return { code, out: said(stdout), err: said(stderr) };
  } catch (error) {
    return { code: error instanceof UsageError ? 2 : 1, out: said(stdout), err: (error as Error).message };
  }
}
