// scratchpad: the session's own notes, kept across turns and restarts (NV2). Model → here → stores/scratchpad.ts.
import { z } from "zod";
import { defineTool, type Tool, type ToolResult, toolError } from "../core/tool.ts";
import type { Scratchpad } from "../stores/scratchpad.ts";

const schema = z.strictObject({
  op: z.enum(["write", "append", "read", "clear"]),
  section: z.string().optional().describe("Name of the section: a-z, 0-9, _ and -. Without it, read lists all sections."),
  text: z.string().optional().describe("For write and append."),
  content: z.string().optional().describe("The same as text."),
});

export function createScratchpadTool(scratchpad: Scratchpad): Tool {
  return defineTool({
    name: "scratchpad",
    description:
      "Notes of this session in named sections, kept across turns and restarts: write replaces a section, append adds to it, " +
      "read shows it (or, without a section, lists all), clear removes it. What stands in the section context_transfer is shown " +
      "to every sub-agent you spawn. 16 KB per section, 20 sections.",
    schema,
    capability: "memory",
    async run({ op, section, text: given, content }, { sessionKey }) {
      if (section === undefined) return op === "read" ? await list(scratchpad, sessionKey) : toolError(`${op} needs a section.`);
      if (op === "read") return read(scratchpad, sessionKey, section);
      if (op === "clear")
        return { text: (await scratchpad.clear(sessionKey, section)) > 0 ? `Section ${section} is gone.` : "There was no such section." };
      const text = given ?? content;
      if (text === undefined) return toolError(`${op} needs a text.`);
      if (content !== undefined && content !== text) return toolError("text and content mean the same; give one of them.");
      const outcome = await scratchpad[op](sessionKey, section, text);
      return outcome.ok ? { text: `Section ${section} now has ${outcome.bytes} bytes.` } : toolError(outcome.error);
    },
  });
}

async function read(scratchpad: Scratchpad, sessionKey: string, section: string): Promise<ToolResult> {
  const text = await scratchpad.read(sessionKey, section);
  if (text !== null) return { text: text === "" ? "(empty)" : text };
  const names = (await scratchpad.sections(sessionKey)).map((row) => row.section);
  return toolError(`There is no such section. ${names.length === 0 ? "The scratchpad is empty." : `There are: ${names.join(", ")}.`}`);
}

async function list(scratchpad: Scratchpad, sessionKey: string): Promise<ToolResult> {
  const rows = await scratchpad.sections(sessionKey);
  if (rows.length === 0) return { text: "The scratchpad is empty." };
  return { text: rows.map((row) => `${row.section} (${row.bytes} bytes)`).join("\n") };
}
