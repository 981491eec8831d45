// docs/commands.md, the parts that are generated: what each command of the terminal says of itself, and the chat's commands as /help and
// /subagents help list them.
import { type Command, helpOf } from "../../src/cli/command.ts";
import { COMMANDS } from "../../src/cli/table.ts";
import { createApprovalsCommand } from "../../src/gateway/approvals-command.ts";
import { type Command as ChatCommand, createCommands } from "../../src/gateway/commands.ts";
import { createGatewayCommands } from "../../src/gateway/gateway-commands.ts";
import { createSubagentsCommand } from "../../src/gateway/subagent-commands.ts";

export const terminalCommands = (commands: readonly Command[] = COMMANDS): string =>
  commands.map((command) => `### herald ${command.name}\n\n\`\`\`text\n${helpOf(command, `herald ${command.name}`)}\n\`\`\``).join("\n\n");

/** As app/front-door.ts puts them together. Listing them asks nothing of what they work with. */
function chatCommandList(): readonly ChatCommand[] {
  const nothing = {} as never;
  const commands = [createSubagentsCommand(nothing), createApprovalsCommand(nothing), ...createGatewayCommands(nothing)];
  return createCommands(commands).list();
}

export function chatCommands(): string {
  const rows = chatCommandList()
    .filter(({ usage }) => usage !== "")
    .flatMap(({ usage, summary, actions = [] }) => [
      [usage, summary] as const,
      ...actions.map((action) => [`/subagents ${action.usage}`, action.summary] as const),
    ]);
  return ["| | |", "|---|---|", ...rows.map(([usage, summary]) => `| \`${usage.replaceAll("|", "\\|")}\` | ${summary} |`)].join("\n");
}
