// How far a tab has come in a chat: the last message it got, and the last change of one (a change has no number of its own). As
// text `12`, or `12.1763390000000` once something was changed; a browser gives it back as it got it.

export interface Cursor {
  readonly seq: number;
  /** 0: nothing had been changed by then. */
  readonly editedAt: number;
}

const FORM = /^(\d{1,15})(?:\.(\d{1,15}))?$/;

/** Undefined: this is none. */
export function parseCursor(text: string): Cursor | undefined {
  const [, seq, editedAt = "0"] = FORM.exec(text) ?? [];
  return seq === undefined ? undefined : { seq: Number(seq), editedAt: Number(editedAt) };
}

export const cursorText = ({ seq, editedAt }: Cursor): string => (editedAt === 0 ? String(seq) : `${seq}.${editedAt}`);
