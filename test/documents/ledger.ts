// Every command that README, CONTRIBUTING and docs/ show in a block, and who runs it: a test (which file, and words in it by which it is
// known), test/flow/documents.test.ts itself, or nobody, with the reason. A command in neither a document nor here fails test/documents.test.ts.

export type Entry =
  | { readonly by: string; readonly as: string }
  /** Run by test/flow/documents.test.ts in an empty folder, and ends with this code. */
  | { readonly ends: number }
  | { readonly not: string };

const CI = { by: ".ci/run", as: "npm ci" } as const;
const BACKUP = "test/flow/backup.test.ts";
const ROOT_ONLY = { not: "changes the system: sudo" } as const;

export const LEDGER: Readonly<Record<string, Entry>> = {
  // README, install, CONTRIBUTING
  "npm ci && npm start": { by: "test/flow/start.test.ts", as: "createHarness" },
  "npm ci && npm test": { by: ".ci/run", as: "npm test" },
  "npm ci": CI,
  "npm test": { by: ".ci/run", as: "npm test" },
  "npm run check": { not: "it is the linters, which CI runs as npm run lint, and unit tests, which npm test runs" },
  "npm run fix": { not: "changes the files of the clone" },
  "npm start -- doctor": { ends: 0 },
  "npm run build && npm pack ./dist": { by: "test/support/packed.ts", as: '"pack", dist' },
  "npm install --global ./herald-*.tgz": { not: "changes the system; test/flow/package.test.ts installs it into an empty folder" },
  "herald --version": { ends: 0 },
  "herald service": { ends: 0 },
  "herald service --install": { ends: 0 },
  "sudo herald service --as herald --install": { by: "test/flow/cli.test.ts", as: "--as" },
  "sudo apt-get install bubblewrap": { by: ".ci/run", as: "bubblewrap" },
  "docker compose up --detach": { not: "needs a container engine; docs/install.md says that the images were never built" },
  "docker compose exec herald cat .herald/sign-in-link": { not: "needs a container engine" },
  "git pull": { not: "needs somebody to pull from" },

  // backup
  "herald backup ~/herald-before.tar.gz": { by: BACKUP, as: '["backup", file]' },
  "herald backup ~/herald.tar.gz": { by: BACKUP, as: '["backup", file]' },
  "herald backup ~/herald-with-keys.tar.gz --with-secrets": { by: BACKUP, as: "--with-secrets" },
  "herald backup ~/backups/herald-$(date +%F).tar.gz": { by: BACKUP, as: '["backup", file]' },
  "herald restore ~/herald.tar.gz": { by: BACKUP, as: '["restore", file]' },
  'pg_dump --format=custom --file=herald.dump "$DATABASE_URL"': { by: "test/flow/dump.test.ts", as: '"pg_dump", "--format=custom"' },
  'pg_restore --no-owner --dbname="$DATABASE_URL" herald.dump': { by: "test/flow/dump.test.ts", as: '"pg_restore", "--no-owner"' },

  // proxy, machines
  "ssh -N -L 8787:127.0.0.1:8787 you@server": { not: "needs a second machine" },
  "sudo apt-get install postgresql": ROOT_ONLY,
  "sudo -u postgres createuser --pwprompt herald": ROOT_ONLY,
  "sudo -u postgres createdb --owner=herald --encoding=UTF8 --template=template0 herald": ROOT_ONLY,

  // channels, models, programs
  "npm run pair": { by: "test/flow/access.test.ts", as: "await pair()" },
  "npm run pair -- CODE": { by: "test/flow/first-steps.test.ts", as: "[PAIR, code]" },
  "npm run pair -- refuse CODE": { by: "test/flow/access.test.ts", as: 'pair("refuse"' },
  "npm run pair -- revoke telegram 123456789": { by: "test/flow/access.test.ts", as: 'pair("revoke"' },
  "npm run auth -- set main anthropic": { by: "test/flow/cli.test.ts", as: '["auth", "set", "main", "openai"]' },
  "npm run auth -- list": { by: "test/flow/cli.test.ts", as: 'cli("auth", "list")' },
  "npm run auth -- remove main anthropic": { by: "test/unit/models/credentials.test.ts", as: 'auth(["remove"' },
  "npm run token -- new claude-code --scope spawn,read,send,stop": { by: "test/flow/mcp-tokens.test.ts", as: 'token("new", "looker"' },
  "npm run token": { by: "test/flow/mcp-tokens.test.ts", as: "await token()" },
  "npm run token -- revoke claude-code": { by: "test/flow/mcp-tokens.test.ts", as: 'token("revoke"' },
  'claude mcp add --transport http herald http://127.0.0.1:8787/mcp --header "Authorization: Bearer herald_…"': {
    not: "another program; docs/mcp.md says that it was not tried",
  },

  // troubleshooting
  "herald doctor": { ends: 0 },
  "herald doctor --online": { ends: 0 },
  "herald status": { ends: 1 },
};
