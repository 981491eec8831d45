// The channels' settings: who may write, how updates arrive, and what a channel that is on can't do without. A channel
// comes out as `enabled: true` with its token, or as `enabled: false` with what would turn it on, so that no
// half-configured one can start. channels.ts → schema.ts.
import { z } from "zod";
import { block, httpUrl, port, secretText, slackChannel, slackUsers, telegramChat, telegramUsers } from "./values.ts";

export const telegram = block({
  enabled: z.boolean().optional().describe("Unset: on when botToken is set."),
  botToken: secretText().optional().describe("From @BotFather; unset: the variable TELEGRAM_BOT_TOKEN."),
  apiRoot: httpUrl()
    .transform((url) => url.replace(/\/+$/, ""))
    .prefault("https://api.telegram.org")
    .describe("Where the Bot API answers; another address for a local Bot API server."),
  mode: z.enum(["polling", "webhook"]).default("polling").describe("Polling needs no public address."),
  webhook: block({
    url: httpUrl().optional().describe("The public https address Telegram calls."),
    port: port().default(8443).describe("Local port the webhook listens on, behind your TLS proxy."),
    secret: z
      .string()
      .regex(/^[A-Za-z0-9_-]{16,256}$/, "must be 16 to 256 letters, digits, _ or -")
      .optional()
      .describe("Telegram sends it with every call; anything else is refused."),
  })
    .prefault({})
    .describe("Needed in webhook mode."),
  allowFrom: telegramUsers().describe("Numeric ids of people who may talk to the bot; empty: nobody but those you pair."),
  groups: z
    .record(
      telegramChat(),
      block({
        requireMention: z.boolean().default(true).describe("Answer only when the bot is mentioned."),
        allowFrom: telegramUsers().describe("People who may talk here, besides the channel's allowFrom."),
      }),
    )
    .default({})
    .describe('Groups the bot answers in, by chat id: {"-1001234567890": {}}.'),
  announce: z
    .enum(["plain", "reserved"])
    .default("plain")
    .describe('"reserved": post a status line first and edit the result into it, so that it can never appear twice.'),
}).transform((settings, context) => {
  const { enabled = settings.botToken !== undefined, botToken, ...rest } = settings;
  const refuse = (path: string[], message: string) => context.addIssue({ code: "custom", path, message });
  if (!enabled) {
    const off =
      enabled === settings.enabled ? "set channels.telegram.enabled to true" : "set channels.telegram.botToken or TELEGRAM_BOT_TOKEN";
    return { ...rest, enabled: false as const, off };
  }
  if (botToken === undefined) refuse(["botToken"], "is missing: set it, or the variable TELEGRAM_BOT_TOKEN, or enabled: false");
  if (rest.mode === "webhook") {
    if (rest.webhook.url === undefined) refuse(["webhook", "url"], 'is missing: mode "webhook" needs the public address');
    if (rest.webhook.secret === undefined) refuse(["webhook", "secret"], 'is missing: mode "webhook" needs a secret');
  }
  return { ...rest, enabled: true as const, botToken: botToken ?? "" };
});

export const slack = block({
  enabled: z.boolean().optional().describe("Unset: on when botToken is set."),
  botToken: secretText().optional().describe("Bot token, xoxb-…; unset: the variable SLACK_BOT_TOKEN."),
  appToken: secretText().optional().describe("App-level token, xapp-…, for socket mode; unset: the variable SLACK_APP_TOKEN."),
  signingSecret: secretText().optional().describe("For http mode; unset: the variable SLACK_SIGNING_SECRET."),
  apiUrl: httpUrl()
    .transform((url) => url.replace(/\/*$/, "/"))
    .prefault("https://slack.com/api/")
    .describe("Where Slack's Web API answers."),
  mode: z.enum(["socket", "http"]).default("socket").describe("Socket mode needs no public address."),
  port: port().optional().describe("Local port for http mode, behind your TLS proxy."),
  allowFrom: slackUsers().describe('Member ids ("U…") of people who may talk to the bot; empty: nobody but those you pair.'),
  channels: z
    .record(
      slackChannel(),
      block({
        requireMention: z.boolean().default(true).describe("Answer only when the bot is mentioned."),
        allowFrom: slackUsers().describe("People who may talk here, besides the channel's allowFrom."),
      }),
    )
    .default({})
    .describe('Channels the bot answers in, by id: {"C012AB3CD": {}}.'),
}).transform((settings, context) => {
  const { enabled = settings.botToken !== undefined, botToken, ...rest } = settings;
  const refuse = (key: string, message: string) => context.addIssue({ code: "custom", path: [key], message });
  if (!enabled) {
    const [key, name] = rest.mode === "http" ? ["signingSecret", "SLACK_SIGNING_SECRET"] : ["appToken", "SLACK_APP_TOKEN"];
    const tokens = `set channels.slack.botToken and ${key}, or SLACK_BOT_TOKEN and ${name}`;
    return { ...rest, enabled: false as const, off: enabled === settings.enabled ? "set channels.slack.enabled to true" : tokens };
  }
  if (botToken === undefined) refuse("botToken", "is missing: set it, or the variable SLACK_BOT_TOKEN, or enabled: false");
  if (botToken?.startsWith("xapp-")) refuse("botToken", "is an app-level token (xapp-…); the bot token starts with xoxb-");
  if (rest.appToken?.startsWith("xoxb-")) refuse("appToken", "is a bot token (xoxb-…); the app-level token starts with xapp-");
  if (rest.mode === "socket" && rest.appToken === undefined) {
    refuse("appToken", 'is missing: mode "socket" needs it, or the variable SLACK_APP_TOKEN');
  }
  if (rest.mode === "http") {
    if (rest.signingSecret === undefined) refuse("signingSecret", 'is missing: mode "http" needs it, or the variable SLACK_SIGNING_SECRET');
    if (rest.port === undefined) refuse("port", 'is missing: mode "http" needs a port to listen on');
  }
  return { ...rest, enabled: true as const, botToken: botToken ?? "" };
});
