// The systemd unit of a gateway. Not in it on purpose: RestrictNamespaces= and PrivateUsers=, which would take bubblewrap its namespaces.

export interface UnitOptions {
  readonly node: string;
  readonly program: string;
  readonly folder: string;
  /** Variables the gateway has to find itself by. */
  readonly env: Readonly<Record<string, string>>;
  readonly stopSeconds: number;
  /** Of the system: whose, and what it may write. Null: of a user. */
  readonly system: { readonly user: string; readonly writes: readonly string[]; readonly isInHome: boolean } | null;
}

/** A percent sign is systemd's own everywhere. */
const plain = (text: string): string => text.replaceAll("%", "%%");
const quoted = (text: string): string => `"${plain(text).replace(/["\\]/g, "\\$&")}"`;
/** In a command line a dollar is a variable, too. */
const word = (text: string): string => quoted(text).replaceAll("$", "$$$$");

export function unitText({ node, program, folder, env, stopSeconds, system }: UnitOptions): string {
  const guards =
    system === null
      ? []
      : [
          `User=${system.user}`,
          "ProtectSystem=strict",
          "# These have to be there and be this user's; --install makes them where they are missing.",
          `ReadWritePaths=${system.writes.map(quoted).join(" ")}`,
          ...(system.isInHome ? [] : ["ProtectHome=yes"]),
        ];
  return [
    "[Unit]",
    "Description=Herald, a chat gateway with sub-agents",
    ...(system === null ? [] : ["Wants=network-online.target", "After=network-online.target"]),
    "",
    "[Service]",
    "Type=exec",
    `ExecStart=${[node, program, "start"].map(word).join(" ")}`,
    `WorkingDirectory=${plain(folder)}`,
    ...Object.entries(env).map(([name, value]) => `Environment=${quoted(`${name}=${value}`)}`),
    "Restart=always",
    "RestartSec=2",
    "# What runs is given time to finish.",
    `TimeoutStopSec=${stopSeconds}`,
    "NoNewPrivileges=yes",
    ...guards,
    "",
    "[Install]",
    `WantedBy=${system === null ? "default.target" : "multi-user.target"}`,
    "",
  ].join("\n");
}
