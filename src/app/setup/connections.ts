// The connections to where people write, as set-up shows and tries them: a platform is a row of `CONNECTIONS`. Each is tried with its
// platform's own client. Paths are those of the first account; channel-sections.ts leads them to further ones.
import { readFileSync } from "node:fs";
import type { Account, Platform } from "../../config/accounts.ts";
import { platformOf } from "../../core/address.ts";
import type { Logger } from "../../core/logger.ts";
import type { Channel } from "../../core/message.ts";
import { ownFile } from "../../core/own-files.ts";
import type { FieldView, Tested } from "../../web/setup.ts";
import type { Path, PlainField, SecretPlace } from "./section.ts";

export interface ConnectionDeps {
  /** The channels that run. */
  channels(): readonly Pick<Channel, "name" | "account" | "health">[];
  readonly log: Logger;
}

type On<P extends Platform> = Extract<Account<P>["settings"], { enabled: true }>;

export interface Connection<P extends Platform = Platform> {
  readonly id: P;
  /** What it can't do without, and where that is missing first. */
  readonly needs: { readonly words: string; readonly field: string };
  readonly title: string;
  readonly about: string;
  /** What one more of it is called. */
  readonly another: string;
  readonly secrets: readonly (SecretPlace & { readonly path: Path } & Pick<FieldView, "name" | "label" | "help"> & Partial<FieldView>)[];
  readonly plain: readonly PlainField[];
  readonly notes: readonly string[];
  copy?(): { label: string; text: string };
  test(settings: On<P>, deps: ConnectionDeps): Promise<Tested>;
}

const TIMEOUT_MS = 12_000;

const TELEGRAM: Connection<"telegram"> = {
  id: "telegram",
  needs: { words: "token", field: "token" },
  title: "Telegram",
  about: "A bot of your own that people write to.",
  another: "bot",
  secrets: [
    {
      name: "token",
      label: "Bot token",
      help: "Write /newbot to @BotFather; it answers with the token.",
      link: { text: "Open @BotFather", url: "https://t.me/BotFather" },
      variable: "TELEGRAM_BOT_TOKEN",
      path: ["channels", "telegram", "botToken"],
    },
  ],
  plain: [
    {
      name: "allowFrom",
      label: "People let in by their id",
      help: "Numeric ids, one a line. Everybody else is asked for a code that you approve under People.",
      kind: "list",
      path: ["channels", "telegram", "allowFrom"],
    },
    {
      name: "address",
      label: "Bot API address",
      help: "Only for a Bot API server of your own; the token goes there.",
      kind: "text",
      path: ["channels", "telegram", "apiRoot"],
      placeholder: "https://api.telegram.org",
      isRare: true,
    },
  ],
  notes: ["Who writes to the bot for the first time is shown a code. It appears under People, where you let them in."],
  async test({ botToken, apiRoot }, { channels }) {
    const { probeTelegram } = await import("../../channels/telegram/probe.ts");
    const isOurs = (bot: string): boolean => channels().some(({ name, account }) => platformOf(name) === "telegram" && account === bot);
    const found = await probeTelegram({ botToken, apiRoot, timeoutMs: TIMEOUT_MS, isOurs });
    if (!found.isOk) return { isOk: false, lines: [found.problem], field: found.isToken ? "token" : "address" };
    return {
      isOk: true,
      lines: [`This is @${found.username} (${found.name}).`, ...(found.remark === null ? [] : [found.remark])],
      link: { text: `Write to @${found.username}`, url: `https://t.me/${found.username}` },
    };
  },
};

const SLACK_TOKENS = [
  {
    name: "botToken",
    label: "Bot token",
    help: "xoxb-…, under OAuth & Permissions once the app is installed.",
    link: { text: "Your Slack apps", url: "https://api.slack.com/apps" },
    variable: "SLACK_BOT_TOKEN",
    path: ["channels", "slack", "botToken"],
  },
  {
    name: "appToken",
    label: "App-level token",
    help: "xapp-…, under Basic Information, with the right connections:write.",
    variable: "SLACK_APP_TOKEN",
    path: ["channels", "slack", "appToken"],
  },
];

const SLACK: Connection<"slack"> = {
  id: "slack",
  needs: { words: "pair of tokens", field: "botToken" },
  title: "Slack",
  about: "An app of your own in your workspace: make it from the manifest below, install it, copy both tokens.",
  another: "workspace",
  secrets: SLACK_TOKENS,
  plain: [
    {
      name: "allowFrom",
      label: "People let in by their id",
      help: "Member ids (U…), one a line. Everybody else is asked for a code that you approve under People.",
      kind: "list",
      path: ["channels", "slack", "allowFrom"],
    },
    {
      name: "address",
      label: "Web API address",
      help: "Only for a stand-in of Slack; the tokens go there.",
      kind: "text",
      path: ["channels", "slack", "apiUrl"],
      placeholder: "https://slack.com/api/",
      isRare: true,
    },
  ],
  notes: [],
  copy: () => ({
    label: "Manifest",
    text: readFileSync(ownFile("config/slack-manifest.yaml"), "utf8"),
  }),
  async test(slack, { log }) {
    const { probeSlack } = await import("../../channels/slack/probe.ts");
    const appToken = slack.mode === "socket" ? (slack.appToken ?? "") : null;
    const found = await probeSlack({ botToken: slack.botToken, appToken, apiUrl: slack.apiUrl, timeoutMs: TIMEOUT_MS, log });
    if (found.isOk) return { isOk: true, lines: [`The app is @${found.bot} in the workspace ${found.team}.`] };
    return { isOk: false, lines: [found.problem], field: found.token === null ? "address" : `${found.token}Token` };
  },
};

const MATRIX: Connection<"matrix"> = {
  id: "matrix",
  needs: { words: "homeserver and token", field: "homeserver" },
  title: "Matrix",
  about: "An account of its own for the bot on any homeserver. It reads rooms without end-to-end encryption only.",
  another: "account",
  secrets: [
    {
      name: "token",
      label: "Access token",
      help: "Sign in as the bot in Element: All settings, Help & About, Access Token. Then close the window without signing out, which would end it.",
      variable: "MATRIX_ACCESS_TOKEN",
      path: ["channels", "matrix", "accessToken"],
    },
  ],
  plain: [
    {
      name: "homeserver",
      label: "Homeserver",
      help: "Where its client API answers; the token goes there.",
      kind: "text",
      path: ["channels", "matrix", "homeserver"],
      placeholder: "https://matrix.example.org",
      isNeeded: true,
    },
    {
      name: "allowFrom",
      label: "People let in by their id",
      help: "User ids (@ann:example.org), one a line. The bot follows the invitations of these, and of people you let in under People.",
      kind: "list",
      path: ["channels", "matrix", "allowFrom"],
    },
  ],
  notes: ["Invite the bot to a room without encryption and write to it. Rooms of several people are listed in the settings."],
  async test(matrix) {
    const { probeMatrix } = await import("../../channels/matrix/probe.ts");
    const found = await probeMatrix({ ...matrix, timeoutMs: TIMEOUT_MS });
    if (!found.isOk) return { isOk: false, lines: [found.problem], field: found.isToken ? "token" : "homeserver" };
    return { isOk: true, lines: [`This is ${found.userId}.`] };
  },
};

const DISCORD: Connection<"discord"> = {
  id: "discord",
  needs: { words: "token", field: "token" },
  title: "Discord",
  about: "A bot of your own on your servers and in direct messages.",
  another: "bot",
  secrets: [
    {
      name: "token",
      label: "Bot token",
      help: "Make an application, turn on Bot → Message Content Intent, then Bot → Reset Token shows the token once.",
      link: { text: "Your applications", url: "https://discord.com/developers/applications" },
      variable: "DISCORD_BOT_TOKEN",
      path: ["channels", "discord", "botToken"],
    },
  ],
  plain: [
    {
      name: "allowFrom",
      label: "People let in by their id",
      help: "Numeric ids, one a line. Everybody else is asked for a code that you approve under People.",
      kind: "list",
      path: ["channels", "discord", "allowFrom"],
    },
    {
      name: "address",
      label: "API address",
      help: "Only for a proxy or a stand-in of Discord; the token goes there.",
      kind: "text",
      path: ["channels", "discord", "apiUrl"],
      placeholder: "https://discord.com/api",
      isRare: true,
    },
  ],
  notes: [
    "Testing shows the link that invites the bot to a server. On a server it answers in the channels listed under channels.discord.channels.",
    "Who writes to the bot for the first time is shown a code. It appears under People, where you let them in.",
  ],
  async test(discord) {
    const { probeDiscord } = await import("../../channels/discord/probe.ts");
    const found = await probeDiscord({ botToken: discord.botToken, apiUrl: discord.apiUrl, timeoutMs: TIMEOUT_MS });
    if (!found.isOk) return { isOk: false, lines: [found.problem], field: found.isToken ? "token" : "address" };
    return {
      isOk: true,
      lines: [`The bot is ${found.name}. It can be invited to a server by the link below.`],
      link: { text: `Invite ${found.name} to a server`, url: found.inviteUrl },
    };
  },
};

/** In the order of the menu. The command line has a flag for each field. */
export const CONNECTIONS: readonly Connection[] = [TELEGRAM, SLACK, MATRIX, DISCORD];
