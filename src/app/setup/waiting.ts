// Which settings wait for the next start: those that a reload doesn't reach and that differ from what was there at the last one. Pure.
import { isDeepStrictEqual } from "node:util";
import { type Account, accountsOf, type Platform } from "../../config/accounts.ts";
import type { Config } from "../../config/schema.ts";

type Part = (config: Config) => unknown;

/** Who may write and how progress is shown are asked for anew each time. */
const connection = ({ channel, settings: { allowFrom: _people, progress: _progress, ...rest } }: Account): unknown => {
  const { groups: _groups, channels: _channels, rooms: _rooms, off: _off, ...fixed } = rest as Record<string, unknown>;
  return [channel, fixed];
};

/** Of all accounts of one platform. */
const connections =
  (wanted: Platform): Part =>
  ({ channels }) =>
    accountsOf(channels)
      .filter(({ platform }) => platform === wanted)
      .map(connection);

const PARTS: Readonly<Record<string, Part>> = {
  Telegram: connections("telegram"),
  Slack: connections("slack"),
  Matrix: connections("matrix"),
  Discord: connections("discord"),
  "MCP servers": ({ mcp }) => mcp,
  "commands (exec)": ({ tools }) => tools.exec,
  "reading web pages": ({ tools }) => tools.webFetch,
  "where the page listens": ({ web }) => [web.enabled, web.host, web.port],
  logging: ({ logging }) => logging,
  "the database": ({ store }) => store,
};

export const waitingParts = (atStart: Config, now: Config): string[] =>
  Object.entries(PARTS)
    .filter(([, part]) => !isDeepStrictEqual(part(atStart), part(now)))
    .map(([name]) => name);
