// Files of messages, wired with the first of them: most conversations are words alone.
import { onFirstUse } from "../core/first-use.ts";
import type { FileDesk } from "../web/files-api.ts";
import type { AttachmentDeps, AttachmentParts } from "./attachments.ts";

export interface Files extends Pick<AttachmentParts, "gather" | "sweep" | "outlet"> {
  desk(): Promise<FileDesk>;
}

export function createFiles(deps: AttachmentDeps): Files {
  // One for all: what arrives at the same time is counted together.
  const parts = onFirstUse(async () => (await import("./attachments.ts")).createAttachmentParts(deps));
  return {
    desk: async () => (await parts()).desk,
    gather: async (job) => ((job.inbound.files ?? []).length === 0 ? { files: [], words: [] } : (await parts()).gather(job)),
    sweep: async () => (await parts()).sweep(),
    outlet(posters) {
      const outlet = onFirstUse(async () => (await parts()).outlet(posters));
      return {
        maxBytes: async () => (await outlet()).maxBytes(),
        known: async (call) => (await outlet()).known(call),
        post: async (outgoing) => (await outlet()).post(outgoing),
        queue: async (outgoing, file) => (await outlet()).queue(outgoing, file),
      };
    },
  };
}
