// What was delegated, by whom, to whom and how deep in the tree: <id>.brief.md (Brief protocol 1.2.0).
// Brief.create → content → (a file, another agent) → Brief.parse → createSubBrief | createResponse
import { randomBytes } from "node:crypto";
import { z } from "zod";
import { DocumentError, serializeDocument, type ValidationResult } from "./document.ts";
import { depthField, idField, textField, timestampField, versionField } from "./fields.ts";
import { checkMeta, readDocument, validate } from "./header.ts";
import { BriefResponse, type CreateResponseOptions } from "./response.ts";

const PROTOCOL_VERSION = "1.2.0";

const metaSchema = z
  .looseObject({
    id: idField,
    protocolVersion: versionField,
    delegator: textField,
    delegatee: textField,
    timestamp: timestampField,
    parentId: idField.optional(),
    currentDepth: depthField,
    maxDepth: depthField,
  })
  .superRefine(({ currentDepth = 0, maxDepth }, context) => {
    if (maxDepth === undefined || currentDepth <= maxDepth) return;
    context.addIssue({ code: "custom", path: ["currentDepth"], message: `must not be above maxDepth (${maxDepth})` });
  });

/** What else its header says is kept. */
export interface BriefMeta {
  readonly id: string;
  readonly protocolVersion: string;
  readonly delegator: string;
  readonly delegatee: string;
  readonly timestamp: string;
  readonly parentId?: string | undefined;
  readonly currentDepth?: number | undefined;
  readonly maxDepth?: number | undefined;
  readonly [field: string]: unknown;
}

export interface CreateBriefOptions {
  /** `brief-` and six random hex digits when left out. */
  readonly id?: string;
  /** That of this library when left out. */
  readonly protocolVersion?: string;
  readonly delegator: string;
  readonly delegatee: string;
  readonly body: string;
  /** ISO time; now when left out. */
  readonly timestamp?: string;
  readonly parentId?: string;
  readonly currentDepth?: number;
  /** No limit when left out. */
  readonly maxDepth?: number;
}

/** What is wrong with a brief: a whole document (text or bytes), or its header as an object. Never throws. */
export const validateBrief = (brief: unknown): ValidationResult => validate(metaSchema, brief);

/** Whatever it is: the check that follows names what is no text. */
const wellFormed = (text: unknown): unknown => (typeof text === "string" ? text.toWellFormed() : text);

/** Immutable. `content` is the text of the file. */
export class Brief {
  readonly meta: BriefMeta;
  readonly body: string;
  readonly content: string;

  private constructor(meta: BriefMeta, body: string, content: string) {
    this.meta = Object.freeze(meta);
    this.body = body;
    this.content = content;
  }

  /** Throws `Invalid Brief document: …` on a bad field. Half a surrogate pair in the body or in a name becomes U+FFFD. */
  static create(options: CreateBriefOptions): Brief {
    const body = options.body.toWellFormed();
    const meta = checkMeta("Brief", metaSchema, {
      id: options.id ?? `brief-${randomBytes(3).toString("hex")}`,
      protocolVersion: options.protocolVersion ?? PROTOCOL_VERSION,
      delegator: wellFormed(options.delegator),
      delegatee: wellFormed(options.delegatee),
      timestamp: options.timestamp ?? new Date().toISOString(),
      parentId: options.parentId,
      currentDepth: options.currentDepth ?? 0,
      maxDepth: options.maxDepth,
    });
    return new Brief(meta, body, serializeDocument(meta, body));
  }

  /** Throws `Invalid Brief document: …`. Unknown header fields are kept in `meta`. */
  static parse(content: string | Uint8Array): Brief {
    const document = readDocument("Brief", metaSchema, content);
    return new Brief(document.meta, document.body, document.content);
  }

  get id(): string {
    return this.meta.id;
  }

  get delegator(): string {
    return this.meta.delegator;
  }

  get delegatee(): string {
    return this.meta.delegatee;
  }

  get parentId(): string | undefined {
    return this.meta.parentId;
  }

  get isSubBrief(): boolean {
    return this.meta.parentId !== undefined;
  }

  /** Is there a level left below this brief? */
  get canDelegate(): boolean {
    return this.meta.maxDepth === undefined || (this.meta.currentDepth ?? 0) < this.meta.maxDepth;
  }

  /** A brief one level deeper, linked to this one. It may lower `maxDepth`, never raise it. Throws at the maximum delegation depth. */
  createSubBrief(options: Omit<CreateBriefOptions, "parentId" | "currentDepth">): Brief {
    const depth = this.meta.currentDepth ?? 0;
    const { maxDepth } = this.meta;
    if (!this.canDelegate) {
      throw new DocumentError(`Brief ${this.id} can't delegate: maximum delegation depth ${maxDepth} reached (depth ${depth})`);
    }
    const limits = [maxDepth, options.maxDepth].filter((limit) => limit !== undefined);
    return Brief.create({
      ...options,
      parentId: this.id,
      currentDepth: depth + 1,
      maxDepth: limits.length > 0 ? Math.min(...limits) : undefined,
    });
  }

  createResponse(options: Omit<CreateResponseOptions, "id">): BriefResponse {
    return BriefResponse.create({ ...options, id: this.id });
  }
}
