// What came back from a delegation: <id>.response.md. It carries the id of the brief it answers.
import { z } from "zod";
import { serializeDocument, type ValidationResult } from "./document.ts";
import { idField, timestampField } from "./fields.ts";
import { checkMeta, readDocument, validate } from "./header.ts";

export const RESPONSE_STATUSES = ["success", "failure", "partial", "rejected"] as const;
export type ResponseStatus = (typeof RESPONSE_STATUSES)[number];

const metaSchema = z.looseObject({
  id: idField,
  status: z.enum(RESPONSE_STATUSES, { error: `must be one of ${RESPONSE_STATUSES.join(", ")}` }),
  timestamp: timestampField,
});

/** What else its header says is kept. */
export interface ResponseMeta {
  readonly id: string;
  readonly status: ResponseStatus;
  readonly timestamp: string;
  readonly [field: string]: unknown;
}

export interface CreateResponseOptions {
  /** The id of the brief that is answered. */
  readonly id: string;
  readonly status: ResponseStatus;
  readonly body: string;
  /** ISO time; now when left out. */
  readonly timestamp?: string;
}

/** What is wrong with a response: a whole document (text or bytes), or its header as an object. Never throws. */
export const validateResponse = (response: unknown): ValidationResult => validate(metaSchema, response);

/** Immutable. `content` is the text of the file. */
export class BriefResponse {
  readonly meta: ResponseMeta;
  readonly body: string;
  readonly content: string;

  private constructor(meta: ResponseMeta, body: string, content: string) {
    this.meta = Object.freeze(meta);
    this.body = body;
    this.content = content;
  }

  /** Throws `Invalid Response document: …` on a bad field. Half a surrogate pair in the body becomes U+FFFD. */
  static create(options: CreateResponseOptions): BriefResponse {
    const body = options.body.toWellFormed();
    const meta = checkMeta("Response", metaSchema, {
      id: options.id,
      status: options.status,
      timestamp: options.timestamp ?? new Date().toISOString(),
    });
    return new BriefResponse(meta, body, serializeDocument(meta, body));
  }

  /** Throws `Invalid Response document: …`. Unknown header fields are kept in `meta`. */
  static parse(content: string | Uint8Array): BriefResponse {
    const document = readDocument("Response", metaSchema, content);
    return new BriefResponse(document.meta, document.body, document.content);
  }

  get id(): string {
    return this.meta.id;
  }

  get status(): ResponseStatus {
    return this.meta.status;
  }

  get isSuccess(): boolean {
    return this.meta.status === "success";
  }
}
