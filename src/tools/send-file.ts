// send_file (CH2): a file of the workspace into the chat that asked, and nowhere else. Opened once and checked on that handle: whoever
// swaps it meanwhile changes nothing. What holds a known secret stays here.
import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { z } from "zod";
import type { Address } from "../core/address.ts";
import { type Attachment, sizeText } from "../core/attachment.ts";
import { codeBlock } from "../core/code-block.ts";
import type { CutSecrets } from "../core/secrets.ts";
import { defineTool, type Tool, type ToolContext, type ToolResult, toolError } from "../core/tool.ts";
import { SEND_FILE_TOOL } from "../core/tool-names.ts";
import { PATH } from "./change-files.ts";
import type { PromptFiles } from "./prompt-files.ts";
import { answerFileErrors, fileErrorText, openFolder, openRegular, splitPlace } from "./workspace-files.ts";
import { refuse, resolveFor } from "./workspace-path.ts";

type Sent = { readonly file: Attachment } | { readonly refused: string };

/** How a file leaves (attachments/posting.ts). */
export interface FileOutlet {
  maxBytes(): Promise<number>;
  known(call: string): Promise<Attachment | null>;
  post(outgoing: Outgoing & { name: string; bytes: Buffer }): Promise<Sent>;
  queue(outgoing: Outgoing, file: Attachment): Promise<Sent>;
}

interface Outgoing {
  readonly call: string;
  readonly by: ToolContext;
  readonly address: Address;
  readonly caption: string;
}

export interface SendFileDeps {
  readonly outlet: FileOutlet;
  readonly promptFiles: PromptFiles;
}

/** Every platform takes so much under a file. */
const MAX_CAPTION = 900;
/** Looked through at a time, and what of it is looked at again with the next: longer than any secret. */
const WINDOW = 512 * 1024;
const OVERLAP = 16 * 1024;

export function createSendFileTool({ outlet, promptFiles }: SendFileDeps): Tool {
  return defineTool({
    name: SEND_FILE_TOOL,
    description:
      "Sends a file of the workspace into the chat this is about, so that people can open it: a report, a picture, a table. " +
      "Returns once it is on its way. Nothing can be sent to another chat.",
    schema: z.strictObject({
      path: PATH,
      caption: z.string().max(MAX_CAPTION).optional().describe("A line that stands with it"),
    }),
    capability: "write",
    repeatable: true,
    async preview({ path, caption = "" }, context) {
      try {
        const { name, bytes } = await readWhole(promptFiles, context, path, await outlet.maxBytes());
        const words = caption === "" ? "" : ", with these words";
        const shown = codeBlock([name, caption].filter((line) => line !== "").join("\n\n"));
        return {
          markdown: `sends this file of the workspace (${sizeText(bytes.length)}) into the chat${words}:\n\n${shown}`,
          basis: digestOf(bytes),
        };
      } catch (error) {
        throw refuse(fileErrorText(path, error) ?? "It can't be worked out what this would send.", error);
      }
    },
    run: ({ path, caption = "" }, context) =>
      answerFileErrors(path, async () => {
        const { address } = context;
        if (address === null) return toolError("There is no chat this could be sent to.");
        const call = `${context.turnId}:${context.callId}`;
        const outgoing = { call, by: context, address, caption };
        const known = await outlet.known(call);
        // Taken up after a crash: what was stored is what is sent, whatever stands in the workspace by now.
        if (known !== null) return told(await outlet.queue(outgoing, known));
        const { name, bytes } = await readWhole(promptFiles, context, path, await outlet.maxBytes());
        if (context.basis !== undefined && context.basis !== digestOf(bytes))
          return toolError("Nothing was sent: the file changed since it was shown.");
        if (await holdsSecret(bytes, context.secrets)) return toolError(`“${name}” was not sent: it holds a secret of this gateway.`);
        return told(await outlet.post({ ...outgoing, name, bytes }));
      }),
  });
}

const told = (sent: Sent): ToolResult =>
  "refused" in sent ? toolError(sent.refused) : { text: `“${sent.file.name}” (${sizeText(sent.file.size)}) is on its way into the chat.` };

const digestOf = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

async function readWhole(
  promptFiles: PromptFiles,
  context: Pick<ToolContext, "workspace" | "runId">,
  path: string,
  maxBytes: number,
): Promise<{ name: string; bytes: Buffer }> {
  const place = await resolveFor(promptFiles, context, path);
  const { parents, name } = splitPlace(place);
  await using folder = await openFolder(place.root, parents);
  const { file, stats } = await openRegular(folder, name, place.shown);
  await using _ = file;
  if (stats.size > maxBytes) throw tooLarge(place.shown, stats.size, maxBytes);
  const bytes = await readUpTo(file, maxBytes);
  if (bytes === null) throw tooLarge(place.shown, stats.size, maxBytes);
  if (bytes.length === 0) throw refuse(`"${place.shown}" is empty; there is nothing to send.`);
  return { name, bytes };
}

const tooLarge = (shown: string, size: number, maxBytes: number): Error =>
  refuse(`"${shown}" has ${sizeText(size)}; files may have at most ${sizeText(maxBytes)}.`);

/** It may grow while it is read. Null: there is more. */
async function readUpTo(file: FileHandle, maxBytes: number): Promise<Buffer | null> {
  const pieces: Buffer[] = [];
  for (let size = 0; ; ) {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(256 * 1024));
    if (bytesRead === 0) return Buffer.concat(pieces);
    size += bytesRead;
    if (size > maxBytes) return null;
    pieces.push(buffer.subarray(0, bytesRead));
  }
}

async function holdsSecret(bytes: Buffer, { redact }: Pick<CutSecrets, "redact">): Promise<boolean> {
  for (let at = 0; at < bytes.length; at += WINDOW) {
    const window = bytes.subarray(at, at + WINDOW + OVERLAP);
    for (const text of [window.toString("latin1"), window.toString("utf8")]) if (redact(text) !== text) return true;
    await nextTurn();
  }
  return false;
}
