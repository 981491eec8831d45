// Holds texts against patterns and data against JSON Schemas beside the event loop: judge.ts posts one job at a time and ends this
// thread when it takes too long. Says when it begins, because loading the library is no part of the job's time.
import { parentPort } from "node:worker_threads";
import type { AnySchema, ErrorObject, Options, ValidateFunction } from "ajv";
import type { Begin, Job, Verdict } from "./judge.ts";

const OPTIONS: Options = {
  allErrors: true,
  strict: false,
  // Formats would be one more package; what a pattern says is held, and a format is a hint to whoever writes the data.
  validateFormats: false,
  // Inlined again and again, a few references to each other grow without end.
  inlineRefs: false,
  logger: false,
};
const MAX_REASONS = 8;
const MAX_REASON = 300;

async function compilerOf(schema: Record<string, unknown>): Promise<(schema: AnySchema) => ValidateFunction> {
  const isOlder = typeof schema.$schema === "string" && /draft-0[467]/.test(schema.$schema);
  const { Ajv } = isOlder ? await import("ajv") : await import("ajv/dist/2020.js").then(({ Ajv2020 }) => ({ Ajv: Ajv2020 }));
  const ajv = new Ajv(OPTIONS);
  return (wanted) => ajv.compile(wanted);
}

const reasonsOf = (errors: readonly ErrorObject[]): string => {
  const lines = errors.slice(0, MAX_REASONS).map((error) => reasonOf(error).slice(0, MAX_REASON));
  return [...lines, ...(errors.length > MAX_REASONS ? [`… and ${errors.length - MAX_REASONS} more`] : [])].join("; ");
};

function reasonOf({ instancePath, message = "does not fit", keyword, params }: ErrorObject): string {
  const named = params as Record<string, unknown>;
  const detail = keyword === "enum" || keyword === "const" ? ` (${JSON.stringify(named.allowedValues ?? named.allowedValue)})` : "";
  const extra = keyword === "additionalProperties" ? ` (${JSON.stringify(named.additionalProperty)})` : "";
  return `data${instancePath} ${message}${detail}${extra}`;
}

type Work = () => Verdict;

/** All that has to be loaded first; what it returns is timed. */
async function prepare(job: Job): Promise<Work> {
  if (job.kind === "match") return () => ({ ok: new RegExp(job.pattern, "m").test(job.text) });
  const { $schema: _, ...schema } = job.schema;
  const compile = await compilerOf(job.schema);
  return () => {
    const validate = compile(schema);
    // With nothing to try: what refers to itself without end shows on anything.
    const candidates = job.kind === "schema" ? [{}, [], "", 0, null] : job.candidates;
    let reasons = "";
    for (const [index, data] of candidates.entries()) {
      if (validate(data) && job.kind === "data") return { ok: true, index };
      if (index === 0) reasons = reasonsOf(validate.errors ?? []);
    }
    return job.kind === "schema" ? { ok: true } : { ok: false, reasons };
  };
}

parentPort?.on("message", async (job: Job) => {
  try {
    const work = await prepare(job);
    const { user, system } = process.threadCpuUsage();
    parentPort?.postMessage({ cpuMs: (user + system) / 1000 } satisfies Begin);
    parentPort?.postMessage(work());
  } catch (error) {
    const reasons = error instanceof RangeError ? "it refers to itself without end" : error instanceof Error ? error.message : "it failed";
    parentPort?.postMessage({ ok: false, reasons: reasons.slice(0, MAX_REASON) } satisfies Verdict);
  }
});
