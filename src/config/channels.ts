// The channels' settings: who may write, how updates arrive, and what a channel that is on can't do without. A channel
// comes out as `enabled: true` with its token, or as `enabled: false` with what would turn it on, so that no
// half-configured one can start. A platform's block is its first account; further ones stand under `accounts` with settings of their
// own, of which they share none (CH1). channels.ts → schema.ts.
import { z } from "zod";
import { accountRecord, type Reading, readAccounts } from "./account-record.ts";
import {
  block,
  discordChannel,
  discordUsers,
  httpUrl,
  matrixRoom,
  matrixUsers,
  port,
  secretText,
  slackChannel,
  slackUsers,
  telegramChat,
  telegramUsers,
} from "./values.ts";

const progress = () =>
  z
    .enum(["live", "lines", "off"])
    .default("live")
    .describe(
      'What a chat sees of sub-agents at work: "live", one message for all of one request that keeps up to date; "lines", a line for each start; "off", nothing but results.',
    );

const TELEGRAM = {
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
  progress: progress(),
  announce: z
    .enum(["plain", "reserved"])
    .default("plain")
    .describe('"reserved": post a status line first and edit the result into it, so that it can never appear twice.'),
};

const telegramAccount = block({ ...TELEGRAM, botToken: secretText().optional().describe("From @BotFather.") });

function readTelegram(settings: z.output<typeof telegramAccount>, { at, variable, refuse }: Reading) {
  const { enabled = settings.botToken !== undefined, botToken, ...rest } = settings;
  const or = variable("TELEGRAM_BOT_TOKEN");
  if (!enabled) {
    const off = enabled === settings.enabled ? `set ${at}.enabled to true` : `set ${at}.botToken${or(" or ")}`;
    return { ...rest, enabled: false as const, off };
  }
  if (botToken === undefined) refuse(["botToken"], `is missing: set it, ${or("or the variable ", ", ")}or enabled: false`);
  if (rest.mode === "webhook") {
    if (rest.webhook.url === undefined) refuse(["webhook", "url"], 'is missing: mode "webhook" needs the public address');
    if (rest.webhook.secret === undefined) refuse(["webhook", "secret"], 'is missing: mode "webhook" needs a secret');
  }
  return { ...rest, enabled: true as const, botToken: botToken ?? "" };
}

export const telegram = block({ ...TELEGRAM, accounts: accountRecord(telegramAccount) }).transform((settings, context) =>
  readAccounts("telegram", settings, context, {
    read: readTelegram,
    // Of a bot: a token that was made anew is still its own.
    own: ({ botToken, mode, webhook: { url, port: listening, secret } }) => [
      { path: ["botToken"], value: botToken.split(":")[0], what: "is a token of the same bot" },
      ...(mode === "webhook"
        ? [
            { path: ["webhook", "url"], value: url, what: "is the same address" },
            { path: ["webhook", "port"], value: listening || undefined, what: "is the same port" },
            { path: ["webhook", "secret"], value: secret, what: "is the same secret" },
          ]
        : []),
    ],
  }),
);

const SLACK = {
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
  progress: progress(),
};

const slackAccount = block({
  ...SLACK,
  botToken: secretText().optional().describe("Bot token, xoxb-…."),
  appToken: secretText().optional().describe("App-level token, xapp-…, for socket mode."),
  signingSecret: secretText().optional().describe("For http mode."),
});

function readSlack(settings: z.output<typeof slackAccount>, { at, variable, refuse }: Reading) {
  const { enabled = settings.botToken !== undefined, botToken, ...rest } = settings;
  const [key, name] = rest.mode === "http" ? ["signingSecret", "SLACK_SIGNING_SECRET"] : ["appToken", "SLACK_APP_TOKEN"];
  const [or, orKey] = [variable("SLACK_BOT_TOKEN"), variable(name ?? "")];
  if (!enabled) {
    const tokens = `set ${at}.botToken and ${key}${or(", or ")}${orKey(" and ")}`;
    return { ...rest, enabled: false as const, off: enabled === settings.enabled ? `set ${at}.enabled to true` : tokens };
  }
  if (botToken === undefined) refuse(["botToken"], `is missing: set it, ${or("or the variable ", ", ")}or enabled: false`);
  if (botToken?.startsWith("xapp-")) refuse(["botToken"], "is an app-level token (xapp-…); the bot token starts with xoxb-");
  if (rest.appToken?.startsWith("xoxb-")) refuse(["appToken"], "is a bot token (xoxb-…); the app-level token starts with xapp-");
  if (rest.mode === "socket" && rest.appToken === undefined) {
    refuse(["appToken"], `is missing: mode "socket" needs it${orKey(", or the variable ")}`);
  }
  if (rest.mode === "http") {
    if (rest.signingSecret === undefined) refuse(["signingSecret"], `is missing: mode "http" needs it${orKey(", or the variable ")}`);
    if (rest.port === undefined) refuse(["port"], 'is missing: mode "http" needs a port to listen on');
  }
  return { ...rest, enabled: true as const, botToken: botToken ?? "" };
}

export const slack = block({ ...SLACK, accounts: accountRecord(slackAccount) }).transform((settings, context) =>
  readAccounts("slack", settings, context, {
    read: readSlack,
    own: ({ botToken, mode, appToken, port: listening }) => [
      { path: ["botToken"], value: botToken, what: "is the same token" },
      // Slack would give each of the two some of what people say.
      ...(mode === "socket" ? [{ path: ["appToken"], value: appToken, what: "is the same token" }] : []),
      ...(mode === "http" ? [{ path: ["port"], value: listening || undefined, what: "is the same port" }] : []),
    ],
  }),
);

const MATRIX = {
  enabled: z.boolean().optional().describe("Unset: on when homeserver and accessToken are set."),
  homeserver: httpUrl()
    .transform((url) => url.replace(/\/+$/, ""))
    .optional()
    .describe('Where the bot\'s homeserver answers, "https://matrix.example.org"; unset: the variable MATRIX_HOMESERVER.'),
  accessToken: secretText().optional().describe("Of the bot's own account; unset: the variable MATRIX_ACCESS_TOKEN."),
  allowFrom: matrixUsers().describe(
    'User ids ("@ann:example.org") of people who may talk to the bot and invite it; empty: nobody but those you pair.',
  ),
  rooms: z
    .record(
      matrixRoom(),
      block({
        requireMention: z.boolean().default(true).describe("Answer only when the bot is mentioned."),
        allowFrom: matrixUsers().describe("People who may talk here, besides the channel's allowFrom."),
      }),
    )
    .default({})
    .describe('Rooms of several people the bot answers in, by id: {"!abc:example.org": {}}.'),
  progress: progress(),
};

const matrixAccount = block({
  ...MATRIX,
  homeserver: httpUrl()
    .transform((url) => url.replace(/\/+$/, ""))
    .optional()
    .describe("Where the bot's homeserver answers."),
  accessToken: secretText().optional().describe("Of the bot's own account."),
});

function readMatrix(settings: z.output<typeof matrixAccount>, { at, variable, refuse }: Reading) {
  const isSet = settings.homeserver !== undefined && settings.accessToken !== undefined;
  const { enabled = isSet, homeserver, accessToken, ...rest } = settings;
  const [or, and] = [variable("MATRIX_HOMESERVER"), variable("MATRIX_ACCESS_TOKEN")];
  if (!enabled) {
    const tokens = `set ${at}.homeserver and accessToken${or(", or ")}${and(" and ")}`;
    return { ...rest, enabled: false as const, off: enabled === settings.enabled ? `set ${at}.enabled to true` : tokens };
  }
  if (homeserver === undefined) refuse(["homeserver"], `is missing: set it, ${or("or the variable ", ", ")}or enabled: false`);
  if (accessToken === undefined) refuse(["accessToken"], `is missing: set it, ${and("or the variable ", ", ")}or enabled: false`);
  return { ...rest, enabled: true as const, homeserver: homeserver ?? "", accessToken: accessToken ?? "" };
}

export const matrix = block({ ...MATRIX, accounts: accountRecord(matrixAccount) }).transform((settings, context) =>
  readAccounts("matrix", settings, context, {
    read: readMatrix,
    own: ({ accessToken }) => [{ path: ["accessToken"], value: accessToken, what: "is the same token" }],
  }),
);

const DISCORD = {
  enabled: z.boolean().optional().describe("Unset: on when botToken is set."),
  botToken: secretText().optional().describe("From Bot → Reset Token; unset: the variable DISCORD_BOT_TOKEN."),
  apiUrl: httpUrl()
    .transform((url) => url.replace(/\/+$/, ""))
    .prefault("https://discord.com/api")
    .describe("Where Discord's REST API answers, without its version; another address for a proxy."),
  allowFrom: discordUsers().describe("Numeric ids of people who may talk to the bot; empty: nobody but those you pair."),
  channels: z
    .record(
      discordChannel(),
      block({
        requireMention: z.boolean().default(true).describe("Answer only when the bot is mentioned."),
        allowFrom: discordUsers().describe("People who may talk here, besides the channel's allowFrom."),
      }),
    )
    .default({})
    .describe('Channels of servers the bot answers in, with their threads, by id: {"1234567890123456789": {}}.'),
  progress: progress(),
};

const discordAccount = block({ ...DISCORD, botToken: secretText().optional().describe("From Bot → Reset Token.") });

function readDiscord(settings: z.output<typeof discordAccount>, { at, variable, refuse }: Reading) {
  const { enabled = settings.botToken !== undefined, botToken, ...rest } = settings;
  const or = variable("DISCORD_BOT_TOKEN");
  if (!enabled) {
    const off = enabled === settings.enabled ? `set ${at}.enabled to true` : `set ${at}.botToken${or(" or ")}`;
    return { ...rest, enabled: false as const, off };
  }
  if (botToken === undefined) refuse(["botToken"], `is missing: set it, ${or("or the variable ", ", ")}or enabled: false`);
  return { ...rest, enabled: true as const, botToken: botToken ?? "" };
}

export const discord = block({ ...DISCORD, accounts: accountRecord(discordAccount) }).transform((settings, context) =>
  readAccounts("discord", settings, context, {
    read: readDiscord,
    // Its first part is the bot's id: a token that was made anew is still its own.
    own: ({ botToken }) => [{ path: ["botToken"], value: botToken.split(".")[0], what: "is a token of the same bot" }],
  }),
);
