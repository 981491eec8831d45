// Set-up as the page gets it (WB7): sections made of items, items made of fields. The page draws whatever fields there are and sends back
// only those that were touched; what a field means in the settings is known on the other side of SetupDesk. No secret is ever in here.

export interface FieldOption {
  readonly value: string;
  readonly label: string;
}

export interface FieldView {
  readonly name: string;
  readonly label: string;
  /** One line: what it is, where it comes from. */
  readonly help: string;
  /** Where to get it. */
  readonly link?: { readonly text: string; readonly url: string };
  /** `list`: one entry a line. */
  readonly kind: "text" | "secret" | "choice" | "number" | "list" | "switch";
  /** What counts now; of a secret, whether there is one. */
  readonly value: string | boolean | readonly string[];
  /** What counts while it is empty. */
  readonly placeholder?: string;
  readonly options?: readonly FieldOption[];
  readonly suggestions?: readonly string[];
  /** Why it can't be changed here: the environment sets it. */
  readonly fixed?: string;
  /** Only while another field has one of these values. */
  readonly shownFor?: { readonly field: string; readonly values: readonly string[] };
  /** Few need it: folded away. */
  readonly isRare?: boolean;
  /** Nothing can be tried while it is empty. */
  readonly isNeeded?: boolean;
}

export interface ItemView {
  readonly id: string;
  readonly title: string;
  /** How it stands, in one line. */
  readonly state: string;
  readonly fields: readonly FieldView[];
  readonly canRemove: boolean;
  /** The one that most people have: it stands there unfolded, before the others. */
  readonly isFirst?: boolean;
}

export interface SectionView {
  readonly id: string;
  readonly title: string;
  readonly about: string;
  readonly items: readonly ItemView[];
  /** A new item's fields; null where there is nothing to add. */
  readonly blank: { readonly title: string; readonly fields: readonly FieldView[] } | null;
  /** It is tried before it is saved. */
  readonly isTested: boolean;
  readonly notes: readonly string[];
  /** A text to copy elsewhere. */
  readonly copy?: { readonly label: string; readonly text: string };
}

export interface SetupView {
  /** Of what is shown; goes back with each change. */
  readonly version: string;
  /** Which machine's files these are, where there are several; else null. */
  readonly machine: string | null;
  readonly files: { readonly settings: string; readonly dotEnv: string };
  /** Why the settings file can't be taken as it is. */
  readonly problem: string | null;
  /** What was changed and waits for the next start. */
  readonly waiting: readonly string[];
  readonly canRestart: boolean;
  readonly sections: readonly SectionView[];
}

export type FieldValue = string | boolean | readonly string[] | null;

/** What was touched, by its field's name; null empties it. */
export interface Touched {
  readonly section: string;
  /** Null: a new one. */
  readonly item: string | null;
  readonly values: Readonly<Record<string, FieldValue>>;
}

export interface Tested {
  readonly isOk: boolean;
  /** What was found, or what is wrong and what to do about it. */
  readonly lines: readonly string[];
  readonly link?: { readonly text: string; readonly url: string };
  /** The field that is to blame. */
  readonly field?: string;
}

export type Saved =
  /** `waiting`: what of this change. */
  | { readonly outcome: "saved"; readonly waiting: readonly string[] }
  /** Nothing was written: somebody has changed the files since. */
  | { readonly outcome: "stale" }
  | { readonly outcome: "failed"; readonly tested: Tested };

export interface SetupDesk {
  view(): Promise<SetupView>;
  test(touched: Touched): Promise<Tested>;
  /** `isInsisted`: although the test failed. Throws AppError in words. */
  save(touched: Touched & { readonly version: string; readonly isInsisted: boolean }): Promise<Saved>;
  remove(item: { readonly section: string; readonly item: string; readonly version: string }): Promise<Saved>;
  /** Takes the files up as they are now: somebody beside it has changed them. */
  reload(): Promise<Pick<SetupView, "problem" | "waiting">>;
  /** False: this machine can't start it anew. */
  restart(): Promise<boolean>;
}
