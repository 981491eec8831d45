// Promises that were rejected and nobody heard: the process would end of them, a test would not notice.
import { afterEach, beforeEach, expect } from "vitest";

/** Fails every test of this file or describe that leaves one. Call it before the hooks that start and stop things: it looks after them. */
export function forbidUnhandledRejections(): void {
  const rejections: unknown[] = [];
  const note = (reason: unknown): void => void rejections.push(reason);
  beforeEach(() => {
    rejections.length = 0;
    process.on("unhandledRejection", note);
  });
  afterEach(() => {
    process.off("unhandledRejection", note);
    expect(rejections).toEqual([]);
  });
}
