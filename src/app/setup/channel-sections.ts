// Set-up: the sections of where people write (connections.ts). The first account's settings stand in the platform's own block, those of
// further ones (CH1) below `accounts`, with the same fields.
import { findAccount } from "../../config/accounts.ts";
import type { LoadedConfig } from "../../config/config.ts";
import { channelName, isAccountName } from "../../core/address.ts";
import { AppError } from "../../core/errors.ts";
import type { FieldValue, FieldView, Tested, Touched } from "../../web/setup.ts";
import { CONNECTIONS, type Connection, type ConnectionDeps } from "./connections.ts";
import {
  type Edit,
  joined,
  type Path,
  type PlainField,
  plainEdits,
  plainView,
  put,
  rawAt,
  type SecretPlace,
  type Section,
  type SetupNow,
  secretEdit,
  secretField,
  textOf,
} from "./section.ts";

export const createConnectionSections = (deps: ConnectionDeps): Section[] => CONNECTIONS.map((connection) => toSection(connection, deps));

function toSection(connection: Connection, deps: ConnectionDeps): Section {
  const { id, title, about, another, notes } = connection;
  return {
    id,
    view: (now) => ({
      ...{ id, title, about, isTested: true, notes },
      items: [null, ...namesOf(now, id)].map((name) => ({
        ...{
          id: channelName(id, name),
          title: name === null ? title : `${title} (${name})`,
          canRemove: name !== null,
          isFirst: name === null,
        },
        ...{ state: stateOf(channelName(id, name), now, deps), fields: fieldsOf(connection, now, name) },
      })),
      blank: { title: `Add another ${another}`, fields: [NAME, ...fieldsOf(connection, now, "").slice(1)] },
      ...(connection.copy === undefined ? {} : { copy: connection.copy() }),
    }),
    edit: (touched, now) => editOf(connection, touched, now),
    test: async (candidate, touched) => testOf(connection, candidate, touched, deps),
    remove(item, now) {
      const name = accountOf(item);
      if (name === null) throw new AppError("invalid", "The first account can be turned off, not removed.");
      const secrets = secretsOf(connection, name).map((place) => ({ ...secretEdit(now, place, null), remove: [] }));
      return joined([put(now, blockOf(id, name), undefined), ...secrets]);
    },
  };
}

const NAME: FieldView = {
  name: "name",
  label: "Name",
  help: "Yours to choose, and kept: small letters, digits, _ and -. Sessions are named after it.",
  kind: "text",
  value: "",
};

/** Null: the first one. */
const accountOf = (item: string | null): string | null => item?.split("@")[1] ?? null;
const nameOf = ({ item, values }: Touched): string | null => (item === null ? textOf(values.name) : accountOf(item));
const blockOf = (id: string, name: string | null): Path => ["channels", id, ...(name === null ? [] : ["accounts", name])];
const namesOf = (now: SetupNow, id: string): string[] => Object.keys((rawAt(now.files.tree, ["channels", id, "accounts"]) ?? {}) as object);

/** The same place in the block of this account. */
const moved = (path: Path, name: string | null): Path => [...blockOf(String(path[1]), name), ...path.slice(2)];
const plainOf = ({ plain }: Connection, name: string | null): PlainField[] =>
  plain.map((field) => ({ ...field, path: moved(field.path, name) }));
const secretsOf = ({ secrets }: Connection, name: string | null) =>
  secrets.map(({ variable, path, ...field }) => ({
    ...field,
    path: moved(path, name),
    variable: name === null ? variable : `${variable}_${name.toUpperCase().replaceAll("-", "_")}`,
  }));

function fieldsOf(connection: Connection, now: SetupNow, name: string | null): FieldView[] {
  return [
    {
      name: "enabled",
      label: `Use ${name === null ? connection.title : "it"}`,
      help: "Off: nothing is received and nothing sent; the tokens stay.",
      kind: "switch",
      value: rawAt(now.files.tree, [...blockOf(connection.id, name), "enabled"]) !== false,
    },
    ...secretsOf(connection, name).map(({ variable, path, ...field }) =>
      secretField(now, { variable, path }, { isNeeded: field.isRare !== true, ...field }),
    ),
    ...plainOf(connection, name).map((field) => plainView(now, field)),
  ];
}

function editOf(connection: Connection, touched: Touched, now: SetupNow) {
  const { item, values } = touched;
  const { id } = connection;
  const name = nameOf(touched);
  if (item === null && name !== null) checkName(connection, name, now);
  const enabledPath = [...blockOf(id, name), "enabled"];
  return joined([
    ...secretsOf(connection, name).map((place) => tokenEdit(now, place, values[place.name], name !== null)),
    plainEdits(now, plainOf(connection, name), values),
    ...(values.enabled === undefined ? [] : [put(now, enabledPath, values.enabled === false ? false : undefined)]),
  ]);
}

function checkName(connection: Connection, name: string, now: SetupNow): void {
  const refuse = (text: string) => new AppError("invalid", `Name: ${text}`);
  if (name === "") throw refuse("it is missing.");
  if (!isAccountName(name)) throw refuse("1 to 32 of a-z, 0-9, _ and -, starting with a letter or digit.");
  if (namesOf(now, connection.id).includes(name)) throw refuse(`there is an account ${name} already.`);
  // `a-b` and `a_b` have the same: one token would take the other's place.
  const taken = secretsOf(connection, name).find(({ variable }) => now.files.sourceOf(variable) !== null);
  if (taken !== undefined) throw refuse(`the variable ${taken.variable} is in use already; choose another.`);
}

/** No variable is a further account's by itself: its settings name the one its token is kept in. */
function tokenEdit(now: SetupNow, place: SecretPlace & { readonly path: Path }, value: FieldValue | undefined, isNamed: boolean): Edit {
  const edit = secretEdit(now, place, value);
  const isGiven = typeof value === "string" && Object.values(edit.secrets).some((secret) => secret !== null);
  if (!isNamed || !isGiven) return edit;
  const [variable = place.variable] = Object.keys(edit.secrets);
  return { ...edit, remove: [], set: [{ path: place.path, value: `\${${variable}}` }] };
}

async function testOf(connection: Connection, { config }: LoadedConfig, touched: Touched, deps: ConnectionDeps): Promise<Tested> {
  const { id, title, needs } = connection;
  const name = nameOf(touched);
  const account = findAccount(config.channels, channelName(id, name));
  const { settings } = account ?? {};
  if (settings?.enabled === true) return connection.test(settings, deps);
  // Turned off, or a first account that nobody set up beside others. Without its tokens it is off too, which is no connection.
  if (settings === undefined || settings.off.endsWith(".enabled to true")) return { isOk: true, lines: [`${title} is off.`] };
  return { isOk: false, field: needs.field, lines: [`${title} has no ${needs.words} yet.`] };
}

function stateOf(channel: string, { config }: SetupNow, { channels }: ConnectionDeps): string {
  const running = channels().find(({ name }) => name === channel);
  const health = running?.health();
  if (health !== undefined) return health.detail === undefined ? health.state : `${health.state}: ${health.detail}`;
  return findAccount(config.channels, channel)?.settings.enabled === true ? "on from the next start" : "off";
}
