// The door of the library, `herald/brief`: all of the Brief protocol in one import, under the names its own SDK has.
// biome-ignore-all lint/performance/noBarrelFile: what others import is one name; inside this project nobody uses it.
export { Brief, type BriefMeta, type CreateBriefOptions, validateBrief, validateBrief as validateBriefMeta } from "./brief.ts";
export { DocumentError, type ParsedDocument, parseDocument, serializeDocument, type ValidationResult } from "./document.ts";
export {
  BriefResponse,
  type CreateResponseOptions,
  type ResponseMeta,
  type ResponseStatus,
  validateResponse,
  validateResponse as validateResponseMeta,
} from "./response.ts";
export { type NewTraceEntry, Trace, type TraceEntry } from "./trace.ts";
