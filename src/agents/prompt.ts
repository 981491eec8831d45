// What a model reads besides the conversation, built so that providers' caches serve it (SE8): `system` is the same bytes from
// call to call while settings and files stay as they are; what changes meanwhile is a topic (topics.ts). Pure;
// gateway/main-prompt.ts and subagents/child-prompt.ts gather the parts.
import { FENCE_RULE } from "../core/fence.ts";
import type { Topic } from "./topics.ts";

export interface Prompt {
  readonly system: string;
  readonly topics: readonly Topic[];
}

export interface PromptFile {
  readonly name: string;
  readonly text: string;
}

export interface MainPromptOptions {
  readonly agentName: string;
  readonly files: readonly PromptFile[];
  readonly memory: string;
  readonly canSpawn: boolean;
}

/** The system prompt of a main session: who it is, how this place works, and the workspace's own files. */
export function mainSystem(options: MainPromptOptions): string {
  const how = [
    `You are ${options.agentName}, an agent people talk to in a chat. Answer in Markdown, briefly and plainly.`,
    "Use tools when they help; a tool's failure is told to you as its result.",
  ];
  if (options.canSpawn) {
    how.push(
      "Long or parallel work goes to sub-agents: call sessions_spawn (it returns at once), tell the person what you sent out, and end your turn. " +
        "Each sub-agent announces its own result in this chat when it ends; you see it as quoted data at your next turn. Never invent a result, never spawn the same task twice.",
    );
  }
  how.push(FENCE_RULE);
  return [how.join("\n"), ...promptFiles(options.files), ...(options.memory === "" ? [] : [options.memory])].join("\n\n");
}

export const promptFiles = (files: readonly PromptFile[]): string[] => files.map((file) => `## ${file.name}\n${file.text}`);
