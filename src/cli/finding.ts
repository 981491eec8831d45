// What a check of `herald doctor` found.

export interface Finding {
  readonly name: string;
  readonly level: "ok" | "warn" | "fail";
  readonly text: string;
  /** What to do, in one sentence; empty when all is well. */
  readonly remedy: string;
}

export const ok = (name: string, text: string): Finding => ({ name, level: "ok", text, remedy: "" });
export const warn = (name: string, text: string, remedy: string): Finding => ({ name, level: "warn", text, remedy });
export const fail = (name: string, text: string, remedy: string): Finding => ({ name, level: "fail", text, remedy });
