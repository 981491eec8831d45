// The kinds of values settings are made of: bounded numbers, addresses, ids, model names. Each says in
// plain words what it accepts, because its message is what an operator reads when the gateway refuses to start.
// values.ts → channels.ts, tools.ts, schema.ts → config.ts.
import { isIP } from "node:net";
import { z } from "zod";
import { parseModelName } from "../models/provider.ts";

/** A block of settings: unknown keys are refused. */
export const block = <S extends z.ZodRawShape>(shape: S) => z.strictObject(shape);

export const whole = (min: number, max: number) => z.int().min(min).max(max);

/** Timers take 32 bits of milliseconds: a week is safe, a month would fire at once. */
export const MAX_TIMER_SECONDS = 7 * 24 * 3600;

/** 0 takes any free port. */
export const port = () => whole(0, 65_535);

export const secretText = () => z.string().regex(/^\S+$/, "must not be empty or contain blanks");

export const pathText = () =>
  z
    .string()
    .max(4096)
    .regex(/^(?:\/|~\/)[^\0]*$/, "must be an absolute path, or start with ~/");

/** The name of a machine among several. */
export const nodeText = () =>
  z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, "must be letters, digits, ., _ or -, starting with a letter or digit");

export const storeUrl = () =>
  z
    .string()
    .max(2048)
    .refine(
      (text) => /^postgres(?:ql)?:\/\//.test(text) && URL.canParse(text),
      "must be an address like postgres://user:password@host/database",
    );

/** http(s) without user info: a password in a URL ends up in logs. */
export const httpUrl = () =>
  z
    .string()
    .max(2048)
    .refine((text) => {
      const url = URL.parse(text);
      return url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "";
    }, "must be an http:// or https:// address without a user name or password in it");

/**
 * `https://herald.example.com`: scheme, host and port, and nothing behind them. A name is somewhere else, and over plain http the token
 * would go there for everybody on the way to read; localhost and addresses in digits are the ends of tunnels and mapped ports.
 */
export const originText = () =>
  z
    .string()
    .max(300)
    .refine((text) => {
      const url = URL.parse(text);
      return url !== null && /^https?:$/.test(url.protocol) && !text.includes("*") && (text === url.origin || text === `${url.origin}/`);
    }, "must be an http:// or https:// address without a path, written as browsers show it, such as https://herald.example.com")
    .refine((text) => {
      const url = URL.parse(text);
      return url?.protocol !== "http:" || url.hostname === "localhost" || isIP(url.hostname.replace(/^\[|\]$/g, "")) !== 0;
    }, "must be https://: plain http:// is for localhost and addresses in digits only, because the token would be sent for all to read")
    .transform((text) => new URL(text).origin);

/** Exactly what a person may type for a network interface; "" would mean all of them. */
export const hostText = () => z.string().regex(/^[A-Za-z0-9.:-]{1,253}$/, "must be a host name or an IP address");

const modelName = () => z.string().refine((text) => parseModelName(text) !== null, 'must be "provider/model-id"');
const primary = () => modelName().describe("The model tried first.");
const fallbacks = () => z.array(modelName()).max(10).default([]).describe("Tried in this order when the one before keeps failing.");

/** `"provider/id"` or `{primary, fallbacks}`; one shape afterwards. No primary: the gateway finds one by itself. */
export const modelChoice = () =>
  z
    .union([modelName(), block({ primary: primary().optional(), fallbacks: fallbacks() })])
    .transform((model): { primary?: string; fallbacks: string[] } =>
      typeof model === "string" ? { primary: model, fallbacks: [] } : model,
    );

/** The same where none is found: fallbacks alone would stand in for nothing. */
export const namedModel = () =>
  z
    .union([modelName(), block({ primary: primary(), fallbacks: fallbacks() })])
    .transform((model) => (typeof model === "string" ? { primary: model, fallbacks: [] } : model));

/** A numeric id as text. Ids pass 2^53 one day (Discord's have), and a number beyond that is already another id. */
const numericUser = (platform: string) =>
  z.union([z.string(), z.number()]).transform((id, context) => {
    if (typeof id === "number" && Math.abs(id) > Number.MAX_SAFE_INTEGER) {
      context.addIssue({ code: "custom", message: "this number can't be kept exactly; put the id in quotes" });
      return z.NEVER;
    }
    if (!/^[1-9][0-9]{0,19}$/.test(String(id))) {
      context.addIssue({ code: "custom", message: `must be a numeric ${platform} user id: digits only, no leading zero, no blanks` });
      return z.NEVER;
    }
    return String(id);
  });

export const telegramUsers = () => z.array(numericUser("Telegram")).max(10_000).default([]);
export const telegramChat = () => z.string().regex(/^-?[1-9][0-9]{0,19}$/, "must be a numeric Telegram chat id in quotes");

export const discordUsers = () => z.array(numericUser("Discord")).max(10_000).default([]);
export const discordChannel = () => z.string().regex(/^[1-9][0-9]{0,19}$/, "must be a numeric Discord channel id in quotes");

const slackUser = () => z.string().regex(/^[UW][A-Z0-9]{2,30}$/, 'must be a Slack member id like "U012AB3CD" (not a name)');
export const slackUsers = () => z.array(slackUser()).max(10_000).default([]);
export const slackChannel = () => z.string().regex(/^[CGD][A-Z0-9]{2,30}$/, 'must be a Slack channel id like "C012AB3CD" (not a name)');

/** As the homeserver names them, which never changes: a name that is shown can be anybody's. */
const matrixUser = () =>
  z
    .string()
    .max(255)
    .regex(/^@[^:\s]*:[A-Za-z0-9.:[\]-]{1,230}$/, 'must be a Matrix user id like "@ann:example.org" (not a display name)');
export const matrixUsers = () => z.array(matrixUser()).max(10_000).default([]);
export const matrixRoom = () =>
  z.string().regex(/^![^\p{Cc}]{1,254}$/u, 'must be a Matrix room id like "!abc:example.org" (not an alias, #…)');

/** 256 bits, so that guessing is hopeless: 64 hex digits or 43 of base64url, and not one character repeated. */
export const pageToken = () =>
  z.string().refine((token) => {
    const long = /^[0-9a-f]*$/i.test(token) ? token.length >= 64 : token.length >= 43;
    return long && /^[A-Za-z0-9_-]{1,256}$/.test(token) && new Set(token).size >= 10;
  }, "must hold at least 32 random bytes (64 hex digits or 43 base64url characters); leave it out to have one made");
