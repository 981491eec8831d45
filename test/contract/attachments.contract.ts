// What every store of files must do: whole bytes or none, a row only behind whole bytes, limits while it arrives, and a sweep that takes
// what nobody has. attachments.test.ts runs it over files and over rows.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { sweepAttachments } from "../../src/attachments/sweep.ts";
import { newId } from "../../src/core/ids.ts";
import type { AttachmentBytes } from "../../src/stores/attachment-bytes.ts";
import type { Database } from "../../src/stores/database.ts";
import { createFileRig, type FileRig, gif, inPieces, LIMITS, png } from "../support/files.ts";
import type { ManualClock } from "../support/manual-clock.ts";

export interface AttachmentRig extends AsyncDisposable {
  readonly db: Database;
  readonly clock: ManualClock;
  readonly stateDir: string;
  readonly bytes: AttachmentBytes;
}

const DAY_MS = 24 * 3_600_000;
const CHAT = "web/local/main/-";

export function attachmentContract(name: string, makeRig: () => Promise<AttachmentRig>): void {
  let rig: AttachmentRig;
  let files: FileRig;
  beforeEach(async () => {
    rig = await makeRig();
    files = createFileRig(rig.db, rig.clock, rig.stateDir, rig.bytes);
  });
  afterEach(() => rig[Symbol.asyncDispose]());
  const take = (content: Uint8Array, more: Partial<Parameters<FileRig["intake"]["take"]>[0]> = {}) =>
    files.intake.take({ origin: `upload:${newId()}`, chat: CHAT, message: null, name: "a.txt", pieces: inPieces(content), ...more });
  const kept = () => rig.bytes.listBefore(Number.MAX_SAFE_INTEGER);

  describe(`attachments (${name})`, () => {
    it("[CH2] bytes come back as they were, whatever they are and however they arrive", async () => {
      const content = Buffer.from(Array.from({ length: 700_001 }, (_, n) => (n * 7) % 256));
      const taken = await take(content, { pieces: inPieces(content, 9_999), name: "data.bin" });
      if ("refused" in taken) return expect.unreachable(taken.refused);
      expect(taken.file).toMatchObject({ name: "data.bin", type: "application/octet-stream", size: content.length });
      expect(await rig.bytes.read(taken.file.id)).toEqual(content);
      expect(await rig.bytes.read(newId())).toBeNull();
    });

    it("[CH2] the same origin again is the same file, and nothing is read for it", async () => {
      const first = await take(Buffer.from("hello"), { origin: "in:1:0" });
      const again = await take(Buffer.from("another"), {
        origin: "in:1:0",
        pieces: {
          [Symbol.asyncIterator]() {
            return expect.unreachable("nobody reads it");
          },
        },
      });
      expect(again).toEqual(first);
      expect(await kept()).toHaveLength(1);
    });

    it("[CH2] what breaks off in the middle leaves neither bytes nor a row", async () => {
      async function* broken(): AsyncGenerator<Uint8Array> {
        yield Buffer.alloc(300_000, 1);
        throw new Error("the line went dead");
      }
      await expect(take(Buffer.of(), { origin: "in:2:0", pieces: broken() })).rejects.toThrow("dead");
      expect(await kept()).toEqual([]);
      expect(await files.attachments.findByOrigin("in:2:0")).toBeNull();
    });

    it("[CH2] FILE-007 an empty file, one too large, and a length that lies are refused in a sentence, and leave nothing", async () => {
      files.limits = { ...LIMITS, fileBytes: 1_000 };
      expect(await take(Buffer.of())).toEqual({ refused: "“a.txt” was not taken: it is empty." });
      const large = { refused: "“a.txt” was not taken: it has more than 1000 B." };
      expect(await take(Buffer.alloc(1_001))).toEqual(large);
      expect(await take(Buffer.alloc(1_001), { size: 5 })).toEqual(large);
      const announced = await take(Buffer.of(), { size: 100 * 1024 * 1024 });
      expect(announced).toEqual({ refused: "“a.txt” was not taken: it has 100.0 MB, and files may have at most 1000 B." });
      files.limits = { ...LIMITS, fileBytes: 1024 * 1024 };
      const rounded = { refused: "“a.txt” was not taken: it has more than 1.0 MB." };
      expect(await take(Buffer.of(), { size: 1024 * 1024 + 9_000 })).toEqual(rounded);
      expect(await kept()).toEqual([]);
    });

    it("[CH2] FILE-007 a chat and the installation have limits for a day, and the disk keeps its reserve; other chats go on", async () => {
      files.limits = { ...LIMITS, chatDayBytes: 2_500, dayBytes: 4_500 };
      const send = async (chat: string) => {
        const taken = await take(Buffer.alloc(1_000, 65), { chat, size: 1_000 });
        return "refused" in taken ? taken.refused : "taken";
      };
      const outcomes: string[] = [];
      for (const chat of ["a", "a", "a", "b", "b", "c"]) outcomes.push(await send(chat));
      expect(outcomes).toEqual([
        ...["taken", "taken", expect.stringContaining("this chat has sent 2 KB of files within a day")],
        ...["taken", "taken", expect.stringContaining("4 KB of files were sent within a day")],
      ]);
      await rig.clock.advance(DAY_MS + 1);
      expect(await send("a")).toBe("taken");
      files.freeBytes = 600;
      expect(await send("b")).toContain("the gateway's disk is nearly full");
    });

    it("[CH2] FILE-007 several at once get no more than one after the other would", async () => {
      files.limits = { ...LIMITS, chatDayBytes: 2_500 };
      const outcomes = await Promise.all([1, 2, 3, 4].map(() => take(Buffer.alloc(1_000, 65), { size: 1_000 })));
      expect(outcomes.filter((one) => "file" in one)).toHaveLength(2);
      expect(await kept()).toHaveLength(2);
    });

    it("[CH2] FILE-001 what a file is follows from its content, a picture's size from its header, and none is unpacked", async () => {
      const facts = async (content: Buffer, given: string) => {
        const taken = await take(content, { name: given });
        return "refused" in taken ? taken : { type: taken.file.type, width: taken.file.width, unfit: taken.file.unfit };
      };
      expect(await facts(png(40, 30), "photo.txt")).toEqual({ type: "image/png", width: 40 });
      expect(await facts(png(30_000, 30_000), "bomb.png")).toEqual({
        ...{ type: "image/png", width: 30_000 },
        unfit: "it has 30000 × 30000 pixels, and models take at most 8000 a side",
      });
      expect(await facts(gif(5_000), "party.gif")).toMatchObject({ type: "image/gif", unfit: expect.stringContaining("animation") });
      expect(await facts(gif(1), "still.gif")).toEqual({ type: "image/gif", width: 1 });
      expect(await facts(Buffer.from("<!doctype html><script>alert(1)</script>"), "photo.png")).toEqual({ type: "text/plain" });
      const svg = '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>';
      expect(await facts(Buffer.from(svg), "logo.svg")).toEqual({ type: "text/plain" });
      expect(await facts(Buffer.from("ünï — text\n"), "notes")).toEqual({ type: "text/plain" });
      expect(await facts(Buffer.from([0x50, 0x4b, 3, 4, 0, 0, 0, 0]), "x.txt")).toMatchObject({ type: "application/zip" });
      expect(await facts(Buffer.from([0xff, 0xd8, 0xff, 0xe0]), "cut.jpg")).toMatchObject({ unfit: "its header names no size" });
    });

    it("[CH2] FILE-001 a name is shown as one line, and is no way to anywhere", async () => {
      const names = [
        "../../etc/passwd",
        "C:\\temp\\a.txt",
        "invoice\u202Egnp.exe",
        "a\u0000\n\rb.txt",
        "..",
        "",
        ".env",
        `${"x".repeat(500)}.pdf`,
      ];
      const shown: string[] = [];
      for (const name of names) {
        const taken = await take(Buffer.from("x"), { name });
        if ("file" in taken) shown.push(taken.file.name);
      }
      expect(shown.slice(0, 7)).toEqual(["passwd", "a.txt", "invoicegnp.exe", expect.stringMatching(/^a *b\.txt$/), "file", "file", "env"]);
      expect(shown[7]).toMatch(/^x+…\.pdf$/);
      expect(shown[7]?.length).toBeLessThanOrEqual(120);
    });

    it("[CH2] swept between the look and the claim: none of them is part of the message", async () => {
      const upload = async (): Promise<string> => {
        const taken = await take(Buffer.from("x"));
        return "file" in taken ? taken.file.id : expect.unreachable(taken.refused);
      };
      const [c, d] = [await upload(), await upload()];
      const swept = await rig.db.transaction([], (tx) => {
        const get: typeof tx.get = async (sql, ...values) => {
          const row = await tx.get<never>(sql, ...values);
          if (values[0] === d) await tx.run("DELETE FROM attachments WHERE id = ?", d);
          return row;
        };
        return files.attachments.claim({ ...tx, get }, [c, d], { chat: CHAT, message: "in:3" });
      });
      expect(swept).toBeNull();
      expect((await files.attachments.get(c))?.message).toBeNull();
    });

    it("[CH2] uploads become part of one message, all or none; nobody else's, and not twice", async () => {
      const [a, b, other] = [await take(Buffer.from("a")), await take(Buffer.from("b")), await take(Buffer.from("c"), { chat: "x" })].map(
        (taken) => ("file" in taken ? taken.file.id : expect.unreachable(taken.refused)),
      ) as [string, string, string];
      const claim = (ids: string[], message: string) =>
        rig.db.transaction(
          [],
          async (tx) => (await files.attachments.claim(tx, ids, { chat: CHAT, message }))?.map(({ id }) => id) ?? null,
        );
      expect(await claim([a, other], "in:1")).toBeNull();
      expect(await claim([a, newId()], "in:1")).toBeNull();
      expect(await files.attachments.countUnsent(CHAT)).toBe(2);
      expect(await claim([a, b], "in:1")).toEqual([a, b]);
      expect(await claim([a, b], "in:1")).toEqual([a, b]);
      expect(await claim([a], "in:2")).toBeNull();
      expect(await rig.db.transaction([], (tx) => files.attachments.discard(tx, a, CHAT))).toBe(false);
      // A chat that is deleted takes all of them along, and nobody else's.
      await rig.db.transaction([], (tx) => files.attachments.forgetOf(tx, CHAT));
      expect(await files.attachments.get(a)).toBeNull();
      expect(await claim([a, b], "in:1")).toBeNull();
      expect(await files.attachments.get(other)).not.toBeNull();
      // Their rows are there until they are swept.
      expect((await files.attachments.listDue({ before: 1, unsentBefore: 1 }, 10)).map(({ id }) => id).sort()).toEqual([a, b].sort());
    });

    it("[CH2] the sweep takes uploads nobody sent, what is too old, and bytes without a row, and nothing else", async () => {
      // Files have the disk's own time.
      rig.clock.set(Date.now());
      const copies: string[] = [];
      const removeCopies = async ({ id }: { id: string }): Promise<void> => {
        // Killed here, the next sweep would find it again.
        expect((await files.attachments.known([id])).size).toBe(1);
        copies.push(id);
      };
      const deps = { db: rig.db, attachments: files.attachments, bytes: rig.bytes, clock: rig.clock, removeCopies };
      const idOf = async (more: { message: string | null }) => {
        const taken = await take(Buffer.from("x"), more);
        return "file" in taken ? taken.file.id : expect.unreachable(taken.refused);
      };
      const [sent, unsent, orphan] = [await idOf({ message: "in:1" }), await idOf({ message: null }), newId()];
      await rig.bytes.write(orphan, inPieces(Buffer.from("nobody's")));
      await sweepAttachments(deps, 90);
      expect((await kept()).sort()).toEqual([sent, unsent, orphan].sort());
      await rig.clock.advance(DAY_MS + 3_600_000);
      await sweepAttachments(deps, 90);
      expect(await kept()).toEqual([sent]);
      await rig.clock.advance(90 * DAY_MS);
      await sweepAttachments(deps, 90);
      expect(await kept()).toEqual([]);
      expect(await files.attachments.get(sent)).toBeNull();
      expect(copies.sort()).toEqual([sent, unsent].sort());
    });

    it("[CH2] a sweep of more than it takes at once, and an upload that is sent in its middle, which stays", async () => {
      rig.clock.set(Date.now());
      const upload = async (): Promise<string> => {
        const taken = await take(Buffer.from("x"));
        return "file" in taken ? taken.file.id : expect.unreachable(taken.refused);
      };
      for (let n = 0; n < 220; n++) await upload();
      const late = await upload();
      await rig.clock.advance(DAY_MS + 3_600_000);
      const removeCopies = async ({ id }: { id: string }): Promise<void> => {
        if (id === late) await rig.db.transaction([], (tx) => files.attachments.claim(tx, [late], { chat: CHAT, message: "in:9" }));
      };
      await sweepAttachments({ db: rig.db, attachments: files.attachments, bytes: rig.bytes, clock: rig.clock, removeCopies }, 90);
      expect(await kept()).toEqual([late]);
      expect((await files.attachments.get(late))?.message).toBe("in:9");
    });
  });
}
