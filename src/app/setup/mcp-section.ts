// Set-up: MCP servers, whose tools agents get. Tried by connecting to one and listing its tools; a started program is ended again.
import type { LoadedConfig } from "../../config/config.ts";
import type { Clock } from "../../core/clock.ts";
import { AppError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import { createMcpTools, type McpTools } from "../../tools/mcp.ts";
import type { FieldView, Tested, Touched } from "../../web/setup.ts";
import { joined, NO_EDIT, type Path, put, rawAt, type Section, type SetupNow, secretEdit, secretField, textOf } from "./section.ts";

export interface McpSectionDeps {
  readonly clock: Clock;
  readonly log: Logger;
  /** Of the servers that run. */
  status: McpTools["status"];
}

const CONNECT_MS = 20_000;
const LOOK_MS = 50;
const SHOWN_TOOLS = 12;

export const createMcpSection = (deps: McpSectionDeps): Section => ({
  id: "mcp",
  view: (now) => ({
    id: "mcp",
    title: "MCP servers",
    about: "Programs and services whose tools your agents can use.",
    items: Object.keys(serversOf(now)).map((name) => ({
      ...{ id: name, title: name, state: stateOf(name, now, deps), canRemove: true },
      fields: fieldsOf(now, name),
    })),
    blank: { title: "Add a server", fields: fieldsOf(now, null) },
    isTested: true,
    notes: ["A program runs with the rights of Herald's user: add only what you trust."],
  }),
  edit: editOf,
  test: (candidate, touched, signal) => testServer(deps, candidate, nameOf(touched), signal),
  remove: (item, now) => {
    const place = secretPlace(now, item);
    return joined([put(now, pathOf(item), undefined), ...(place === null ? [] : [{ ...secretEdit(now, place, null), remove: [] }])]);
  },
});

const pathOf = (name: string): Path => ["mcp", "servers", name];
const serversOf = (now: SetupNow): Record<string, unknown> => (rawAt(now.files.tree, ["mcp", "servers"]) ?? {}) as Record<string, unknown>;
const nameOf = ({ item, values }: Touched): string => item ?? textOf(values.name);
const variableOf = (name: string): string => `MCP_${name.toUpperCase().replaceAll("-", "_")}_TOKEN`;

function stateOf(name: string, now: SetupNow, { status }: McpSectionDeps): string {
  if (rawAt(now.files.tree, [...pathOf(name), "enabled"]) === false) return "off";
  const running = status().find((one) => one.name === name);
  return running === undefined ? "on from the next start" : `${running.state}${running.detail === "" ? "" : `: ${running.detail}`}`;
}

/** The one variable or header that this page keeps a secret in; others are the file's. */
function secretPlace(now: SetupNow, name: string): { variable: string; path: Path } | null {
  const server = rawAt(now.files.tree, pathOf(name));
  for (const block of ["env", "headers"]) {
    const entries = Object.entries((rawAt(server, [block]) ?? {}) as object);
    const found = entries.find(([, value]) => typeof value === "string" && value.includes(`\${${variableOf(name)}}`));
    if (found !== undefined) return { variable: variableOf(name), path: [...pathOf(name), block, found[0]] };
  }
  return null;
}

function fieldsOf(now: SetupNow, name: string | null): FieldView[] {
  const server = name === null ? undefined : rawAt(now.files.tree, pathOf(name));
  const text = (key: string): string => String(rawAt(server, [key]) ?? "");
  const args = rawAt(server, ["args"]);
  const place = name === null ? null : secretPlace(now, name);
  const forKind = (kind: string) => ({ shownFor: { field: "kind", values: [kind] } });
  return [
    ...(name === null
      ? [
          {
            name: "name",
            label: "Name",
            help: "Lower case letters, digits and -; its tools are called <name>__<tool>.",
            kind: "text",
            value: "",
          } as const,
        ]
      : [
          {
            name: "enabled",
            label: "Use it",
            help: "Off: it isn't started.",
            kind: "switch",
            value: rawAt(server, ["enabled"]) !== false,
          } as const,
        ]),
    {
      name: "kind",
      label: "Kind",
      help: "How it is reached.",
      kind: "choice",
      value: rawAt(server, ["url"]) === undefined ? "stdio" : "http",
      options: [
        { value: "stdio", label: "A program on this machine" },
        { value: "http", label: "A service at an address" },
      ],
    },
    { name: "command", label: "Program", help: "What is started, such as npx.", kind: "text", value: text("command"), ...forKind("stdio") },
    {
      name: "args",
      label: "Arguments",
      help: "One a line.",
      kind: "list",
      value: Array.isArray(args) ? args.map(String) : [],
      ...forKind("stdio"),
    },
    {
      name: "url",
      label: "Address",
      help: "http:// or https://; the token goes there.",
      kind: "text",
      value: text("url"),
      ...forKind("http"),
    },
    {
      ...{
        name: "variable",
        label: "Variable for its token",
        help: "If it wants one, as its manual names it.",
        kind: "text",
        ...forKind("stdio"),
      },
      value: place?.path.at(-2) === "env" ? String(place.path.at(-1)) : "",
    },
    secretField(
      now,
      { variable: variableOf(name ?? "new") },
      { name: "token", label: "Token", help: "If it wants one. To a service it is sent as Authorization: Bearer …" },
    ),
  ].map((field) => (field.name === "token" && place === null ? { ...field, value: false } : field)) as FieldView[];
}

function editOf(touched: Touched, now: SetupNow) {
  const { item, values } = touched;
  const name = nameOf(touched);
  if (name === "") throw new AppError("invalid", "Name: it is missing.");
  if (item === null && Object.hasOwn(serversOf(now), name)) throw new AppError("invalid", `Name: there is a server ${name} already.`);
  const old = (item === null ? {} : { ...(rawAt(now.files.tree, pathOf(name)) as object) }) as Record<string, unknown>;
  const kind = textOf(values.kind) || (old.url === undefined ? "stdio" : "http");
  const secret = secretEdit(now, { variable: variableOf(name) }, values.token);
  const token = secret.secrets[variableOf(name)];
  const place = item === null ? null : secretPlace(now, name);
  const hasToken = token === undefined ? place !== null : token !== null;
  const changes = kind === "http" ? httpKeys(values, old, hasToken, name) : stdioKeys(values, old, { hasToken, name, place });
  const enabled = values.enabled === undefined ? {} : { enabled: values.enabled === false ? false : undefined };
  const edits = Object.entries({ ...changes, ...enabled }).map(([key, value]) => keyEdit(now, name, key, value));
  // A new one is written in one piece.
  if (item === null) return joined([{ ...NO_EDIT, set: [{ path: pathOf(name), value: defined(changes) }] }, secret]);
  return joined([...edits, secret]);
}

const defined = (block: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(block).filter(([, value]) => value !== undefined));

function keyEdit(now: SetupNow, name: string, key: string, value: unknown) {
  const path = [...pathOf(name), key];
  if (value !== undefined) return { ...NO_EDIT, set: [{ path, value }] };
  return rawAt(now.files.tree, path) === undefined ? NO_EDIT : { ...NO_EDIT, remove: [path] };
}

type Keys = Record<string, unknown>;

function httpKeys(values: Touched["values"], old: Keys, hasToken: boolean, name: string): Keys {
  const url = values.url === undefined ? old.url : textOf(values.url);
  const { Authorization: _, ...others } = (old.headers ?? {}) as Keys;
  const headers = hasToken ? { ...others, Authorization: `Bearer \${${variableOf(name)}}` } : others;
  const touched =
    values.token !== undefined || values.kind !== undefined ? { headers: Object.keys(headers).length === 0 ? undefined : headers } : {};
  return { url, command: undefined, args: undefined, env: undefined, ...touched };
}

function stdioKeys(
  values: Touched["values"],
  old: Keys,
  { hasToken, name, place }: { hasToken: boolean; name: string; place: { path: Path } | null },
): Keys {
  const args = values.args === undefined ? old.args : (values.args as readonly string[]).filter((one) => one !== "");
  const before = place?.path.at(-2) === "env" ? String(place.path.at(-1)) : "";
  const variable = values.variable === undefined ? before : textOf(values.variable);
  if (hasToken && variable === "") throw new AppError("invalid", "Variable for its token: it is missing.");
  const { [before]: _, ...others } = (old.env ?? {}) as Keys;
  const env = hasToken ? { ...others, [variable]: `\${${variableOf(name)}}` } : others;
  const touched =
    values.token !== undefined || values.variable !== undefined ? { env: Object.keys(env).length === 0 ? undefined : env } : {};
  const command = values.command === undefined ? old.command : textOf(values.command);
  return { command, args: Array.isArray(args) && args.length > 0 ? args : undefined, url: undefined, headers: undefined, ...touched };
}

async function testServer({ clock, log }: McpSectionDeps, { config }: LoadedConfig, name: string, signal: AbortSignal): Promise<Tested> {
  const server = config.mcp.servers[name];
  if (server === undefined) return { isOk: false, lines: ["This server is not in the settings."] };
  if (!server.enabled) return { isOk: true, lines: ["It is off, so it was not tried."] };
  const tools = createMcpTools({ servers: { [name]: server }, clock, log, initializeTimeoutMs: CONNECT_MS });
  const field = server.kind === "http" ? "url" : "command";
  try {
    tools.start();
    while (!signal.aborted && tools.status()[0]?.state === "connecting") await clock.sleep(LOOK_MS, signal);
    const [status] = tools.status();
    if (status?.state !== "ready")
      return {
        isOk: false,
        field,
        lines: [`It can't be used: ${status?.state === "failed" ? status.detail : "it did not answer in time"}`],
      };
    const names = tools.tools().map((tool) => tool.name.slice(name.length + 2));
    const more = names.length > SHOWN_TOOLS ? ` and ${names.length - SHOWN_TOOLS} more` : "";
    return { isOk: true, lines: [`It answers, with ${status.detail}: ${names.slice(0, SHOWN_TOOLS).join(", ")}${more}`] };
  } finally {
    await tools.stop();
  }
}
