// The tables, as ordered migrations: version n is the state after the first n steps. Control rows only; long text
// lives in transcripts and files. A step that shipped is never edited: add the next one.
// Partial indexes are used only when the query repeats their exact WHERE (test/unit/stores asserts the plans).

export const MIGRATIONS: readonly string[] = [
  `
  -- What arrived, before it was confirmed to the platform. new → waiting (for its session's turn) → done.
  CREATE TABLE inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    external_id TEXT NOT NULL,
    raw TEXT,
    state TEXT NOT NULL CHECK (state IN ('new', 'waiting', 'done')),
    session_key TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    received_at INTEGER NOT NULL,
    done_at INTEGER,
    UNIQUE (channel, account, external_id)
  ) STRICT;
  CREATE INDEX inbox_new ON inbox (id) WHERE state = 'new';
  CREATE INDEX inbox_waiting ON inbox (session_key, id) WHERE state = 'waiting';
  CREATE INDEX inbox_done ON inbox (done_at) WHERE state = 'done';
  CREATE TABLE channel_cursor (
    channel TEXT NOT NULL, account TEXT NOT NULL, value TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (channel, account)
  ) STRICT, WITHOUT ROWID;

  -- Every text that must leave, one row per rendered part.
  CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery TEXT NOT NULL,
    n INTEGER NOT NULL,
    parts INTEGER NOT NULL,
    address TEXT NOT NULL,
    address_key TEXT NOT NULL,
    part TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'sending', 'unknown', 'sent', 'blocked')),
    not_before INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    first_at INTEGER,
    sending_at INTEGER,
    ref TEXT,
    reason TEXT,
    run_id TEXT,
    created_at INTEGER NOT NULL,
    settled_at INTEGER,
    UNIQUE (delivery, n)
  ) STRICT;
  CREATE INDEX outbox_open ON outbox (address_key, id) WHERE state IN ('queued', 'sending', 'unknown');
  CREATE INDEX outbox_settled ON outbox (settled_at) WHERE state IN ('sent', 'blocked');
  CREATE INDEX outbox_run ON outbox (run_id) WHERE run_id IS NOT NULL;

  -- One row per transcript; a key has at most one that is still open.
  CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    address TEXT,
    parent_key TEXT,
    model TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER
  ) STRICT, WITHOUT ROWID;
  CREATE UNIQUE INDEX sessions_open ON sessions (key) WHERE ended_at IS NULL;
  CREATE INDEX sessions_key ON sessions (key, created_at);

  CREATE TABLE spend (
    session_id TEXT NOT NULL,
    day TEXT NOT NULL,
    model TEXT NOT NULL,
    calls INTEGER NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    cost_usd REAL,
    PRIMARY KEY (session_id, day, model)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX spend_day ON spend (day);

  CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    spawn_key TEXT NOT NULL UNIQUE,
    child_key TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    requester_key TEXT NOT NULL,
    requester_session_id TEXT NOT NULL,
    requester_run_id TEXT,
    depth INTEGER NOT NULL,
    address TEXT NOT NULL,
    label TEXT NOT NULL,
    task TEXT NOT NULL,
    model TEXT NOT NULL,
    thinking TEXT NOT NULL,
    timeout_ms INTEGER NOT NULL,
    max_iterations INTEGER NOT NULL,
    cleanup TEXT NOT NULL,
    announce TEXT NOT NULL,
    params TEXT NOT NULL,
    tool_ceiling TEXT NOT NULL,
    state TEXT NOT NULL,
    delivery TEXT NOT NULL,
    delivery_reason TEXT,
    generation INTEGER NOT NULL DEFAULT 1,
    resumes INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    boot_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    queued_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    input INTEGER, output INTEGER, cache_read INTEGER, cache_write INTEGER, cost_usd REAL,
    reason TEXT,
    incomplete INTEGER NOT NULL DEFAULT 0,
    doing TEXT,
    settled_at INTEGER,
    archived_at INTEGER,
    archive_name TEXT,
    plan TEXT,
    sections TEXT,
    -- Up to which generation the run's documents are written.
    documented INTEGER NOT NULL DEFAULT 0,
    -- The child's first message until the run starts: what a power cut may have kept from its transcript.
    first_message TEXT
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX runs_unfinished ON runs (queued_at, id) WHERE state IN ('queued', 'running');
  CREATE INDEX runs_unfinished_of ON runs (requester_key) WHERE state IN ('queued', 'running');
  CREATE INDEX runs_requester ON runs (requester_key, created_at);
  CREATE INDEX runs_parent ON runs (requester_run_id) WHERE requester_run_id IS NOT NULL;
  CREATE INDEX runs_created ON runs (created_at);
  CREATE INDEX runs_undocumented ON runs (ended_at) WHERE ended_at IS NOT NULL AND documented < generation;
  -- Blocked announcements wait for a person, however old they are.
  CREATE INDEX runs_blocked ON runs (created_at) WHERE delivery = 'blocked';
  CREATE INDEX runs_archive ON runs (cleanup, settled_at) WHERE settled_at IS NOT NULL AND archived_at IS NULL;

  -- Messages to a queued or running run, read at its next step.
  CREATE TABLE run_messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL,
    sender TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    taken_at INTEGER
  ) STRICT;
  CREATE INDEX run_messages_open ON run_messages (run_id, id) WHERE taken_at IS NULL;

  -- What a requester's model still has to read: results of its children.
  CREATE TABLE notes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    about TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    taken_at INTEGER
  ) STRICT;
  CREATE INDEX notes_open ON notes (session_id, id) WHERE taken_at IS NULL;

  -- What the numbers of the last list meant, per chat.
  CREATE TABLE listings (session_key TEXT PRIMARY KEY, run_ids TEXT NOT NULL, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;

  CREATE TABLE scratchpad (
    session_key TEXT NOT NULL, section TEXT NOT NULL, text TEXT NOT NULL, updated_at INTEGER NOT NULL,
    PRIMARY KEY (session_key, section)
  ) STRICT, WITHOUT ROWID;

  -- Senders approved by pairing, and codes not yet approved.
  CREATE TABLE paired (
    channel TEXT NOT NULL, account TEXT NOT NULL, sender_id TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (channel, account, sender_id)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE pairing_codes (
    code TEXT PRIMARY KEY, channel TEXT NOT NULL, account TEXT NOT NULL, sender_id TEXT NOT NULL, sender_name TEXT NOT NULL,
    address TEXT NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL,
    UNIQUE (channel, account, sender_id)
  ) STRICT, WITHOUT ROWID;

  -- The web page's own platform: what Telegram keeps on its servers stands here.
  CREATE TABLE web_messages (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    chat TEXT NOT NULL,
    key TEXT NOT NULL UNIQUE,
    author TEXT NOT NULL CHECK (author IN ('user', 'agent')),
    text TEXT NOT NULL,
    extra TEXT,
    at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX web_messages_chat ON web_messages (chat, seq);

  -- Briefs by child session and by who gave them.
  CREATE TABLE briefs (
    session_id TEXT NOT NULL, requester_key TEXT NOT NULL, brief TEXT NOT NULL, applied_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, requester_key)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- A spawn wrote twice the pages it needs: long rows in random order, and two indexes nobody asked.
  CREATE TABLE runs_by_seq (
    -- In order of arrival, so that rows and the newest pages of the indexes lie together.
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    spawn_key TEXT NOT NULL UNIQUE,
    child_key TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    requester_key TEXT NOT NULL,
    requester_session_id TEXT NOT NULL,
    requester_run_id TEXT,
    depth INTEGER NOT NULL,
    address TEXT NOT NULL,
    label TEXT NOT NULL,
    task TEXT NOT NULL,
    model TEXT NOT NULL,
    thinking TEXT NOT NULL,
    timeout_ms INTEGER NOT NULL,
    max_iterations INTEGER NOT NULL,
    cleanup TEXT NOT NULL,
    announce TEXT NOT NULL,
    params TEXT NOT NULL,
    tool_ceiling TEXT NOT NULL,
    state TEXT NOT NULL,
    delivery TEXT NOT NULL,
    delivery_reason TEXT,
    generation INTEGER NOT NULL DEFAULT 1,
    resumes INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    boot_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    queued_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    input INTEGER, output INTEGER, cache_read INTEGER, cache_write INTEGER, cost_usd REAL,
    reason TEXT,
    incomplete INTEGER NOT NULL DEFAULT 0,
    doing TEXT,
    settled_at INTEGER,
    archived_at INTEGER,
    archive_name TEXT,
    plan TEXT,
    sections TEXT,
    -- Up to which generation the run's documents are written.
    documented INTEGER NOT NULL DEFAULT 0,
    -- The child's first message until its transcript is surely on disk.
    first_message TEXT
  ) STRICT;
  INSERT INTO runs_by_seq SELECT NULL, * FROM runs ORDER BY created_at, id;
  DROP TABLE runs;
  ALTER TABLE runs_by_seq RENAME TO runs;
  CREATE INDEX runs_unfinished ON runs (queued_at) WHERE state IN ('queued', 'running');
  CREATE INDEX runs_unfinished_of ON runs (requester_key) WHERE state IN ('queued', 'running');
  CREATE INDEX runs_requester ON runs (requester_key);
  CREATE INDEX runs_parent ON runs (requester_run_id) WHERE requester_run_id IS NOT NULL;
  CREATE INDEX runs_undocumented ON runs (ended_at) WHERE ended_at IS NOT NULL AND documented < generation;
  -- Blocked announcements wait for a person, however old they are.
  CREATE INDEX runs_blocked ON runs (seq) WHERE delivery = 'blocked';
  CREATE INDEX runs_archive ON runs (cleanup, settled_at) WHERE settled_at IS NOT NULL AND archived_at IS NULL;
  DROP INDEX sessions_key;
  `,
  `
  -- Whether an earlier attempt may have arrived stands in sending_at now: it was never cleared, and of those given up only
  -- these can have.
  UPDATE outbox SET sending_at = NULL WHERE state = 'blocked' AND reason NOT LIKE 'not delivered within 24 h%';
  UPDATE runs SET doing = 'put aside until it is taken up again' WHERE doing = 'put aside until the gateway starts again';
  -- A part says by itself now that it is one of an announcement.
  UPDATE outbox SET part = json_set(part, '$.kind', 'announcement')
    WHERE delivery LIKE 'announce:%' AND state <> 'sent' AND json_extract(address, '$.channel') IN ('telegram', 'web');
  -- What was read long ago is forgotten.
  CREATE INDEX run_messages_taken ON run_messages (taken_at) WHERE taken_at IS NOT NULL;
  CREATE INDEX notes_taken ON notes (taken_at) WHERE taken_at IS NOT NULL;
  `,
  `
  -- Limits are of the run, not of the process (SP10).
  ALTER TABLE runs ADD COLUMN deadline_at INTEGER;
  ALTER TABLE runs ADD COLUMN steps INTEGER NOT NULL DEFAULT 0;
  UPDATE runs SET deadline_at = started_at + timeout_ms WHERE state = 'running' AND timeout_ms > 0;
  `,
  `
  -- How many processes have ended at a piece of work that one of them left behind.
  CREATE TABLE tries (work TEXT PRIMARY KEY, deaths INTEGER NOT NULL, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  `,
  `
  -- Which account a channel speaks for, where only the platform can tell.
  CREATE TABLE channel_account (channel TEXT PRIMARY KEY, account TEXT NOT NULL) STRICT, WITHOUT ROWID;
  `,
  `
  -- Within an address a message that failed steps aside (DL6), answers to commands go first, and what a stop came before is
  -- withdrawn. A CHECK can't be changed in place, so the table is made anew.
  CREATE TABLE outbox_anew (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery TEXT NOT NULL,
    n INTEGER NOT NULL,
    parts INTEGER NOT NULL,
    address TEXT NOT NULL,
    address_key TEXT NOT NULL,
    part TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'sending', 'unknown', 'joined', 'sent', 'blocked', 'withdrawn')),
    -- 0: the answer to a command; 1: everything else.
    rank INTEGER NOT NULL,
    -- 1: it failed before; others of its address don't wait for it.
    aside INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    first_at INTEGER,
    sending_at INTEGER,
    ref TEXT,
    reason TEXT,
    run_id TEXT,
    created_at INTEGER NOT NULL,
    settled_at INTEGER,
    UNIQUE (delivery, n)
  ) STRICT;
  INSERT INTO outbox_anew (id, delivery, n, parts, address, address_key, part, state, rank, not_before, attempts, first_at, sending_at,
      ref, reason, run_id, created_at, settled_at)
    SELECT id, delivery, n, parts, address, address_key, part, state, delivery NOT LIKE 'answer:%', not_before, attempts, first_at,
      sending_at, ref, reason, run_id, created_at, settled_at FROM outbox ORDER BY id;
  DROP TABLE outbox;
  ALTER TABLE outbox_anew RENAME TO outbox;
  -- All parts of one message stand aside together, and until the same time: that keeps them in order.
  UPDATE outbox SET aside = 1, not_before = failed.until
    FROM (SELECT delivery, max(not_before) AS until FROM outbox
          WHERE attempts > 0 AND state IN ('queued', 'sending', 'unknown') GROUP BY delivery) AS failed
    WHERE outbox.delivery = failed.delivery AND state IN ('queued', 'sending', 'unknown');
  CREATE INDEX outbox_open ON outbox (address_key, aside, rank, id) WHERE state IN ('queued', 'sending', 'unknown');
  CREATE INDEX outbox_aside ON outbox (address_key, not_before, id) WHERE aside = 1 AND state IN ('queued', 'sending', 'unknown');
  CREATE INDEX outbox_settled ON outbox (settled_at) WHERE state IN ('sent', 'blocked', 'withdrawn');
  CREATE INDEX outbox_run ON outbox (run_id) WHERE run_id IS NOT NULL;
  `,
  `
  -- Browsers signed in to the page; only hashes of what they hold.
  CREATE TABLE browsers (
    id TEXT PRIMARY KEY,
    cookie_hash TEXT NOT NULL UNIQUE,
    key_hash TEXT NOT NULL,
    token_mark TEXT NOT NULL,
    signed_in_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    seen_from TEXT NOT NULL,
    agent TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- What the operator decided about somebody: let in or refused, and whether they were told.
  CREATE TABLE people (
    channel TEXT NOT NULL, account TEXT NOT NULL, sender_id TEXT NOT NULL, sender_name TEXT NOT NULL, address TEXT,
    state TEXT NOT NULL CHECK (state IN ('paired', 'refused')), at INTEGER NOT NULL, told_at INTEGER,
    PRIMARY KEY (channel, account, sender_id)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO people SELECT channel, account, sender_id, '', NULL, 'paired', at, at FROM paired;
  DROP TABLE paired;
  CREATE INDEX people_untold ON people (at) WHERE told_at IS NULL;
  `,
  `
  -- The main session at the top of a run's tree: what is below a session is found without a look at everybody else's runs.
  ALTER TABLE runs ADD COLUMN root_key TEXT NOT NULL DEFAULT '';
  WITH RECURSIVE tree (seq, id, root_key) AS (
    SELECT seq, id, requester_key FROM runs WHERE requester_run_id IS NULL
    UNION ALL SELECT runs.seq, runs.id, tree.root_key FROM tree JOIN runs ON runs.requester_run_id = tree.id
  ) UPDATE runs SET root_key = tree.root_key FROM tree WHERE tree.seq = runs.seq;
  DROP INDEX runs_unfinished_of;
  CREATE INDEX runs_unfinished_tree ON runs (root_key, requester_key) WHERE state IN ('queued', 'running');
  `,
  `
  -- Messages that go out together (DL7): the key they are sent under, what is sent, and who must go alone.
  ALTER TABLE outbox ADD COLUMN joined_as TEXT;
  ALTER TABLE outbox ADD COLUMN joined_part TEXT;
  ALTER TABLE outbox ADD COLUMN alone INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX outbox_joined ON outbox (joined_as) WHERE joined_as IS NOT NULL;
  `,
  `
  -- With the state, so that they are counted without a look at their rows; of its own order nothing changes.
  DROP INDEX runs_unfinished;
  CREATE INDEX runs_unfinished ON runs (queued_at, seq, state) WHERE state IN ('queued', 'running');
  `,
  `
  -- A run that waits is a row and nothing else.
  ALTER TABLE runs ADD COLUMN waits TEXT;
  ALTER TABLE runs ADD COLUMN waiting_since INTEGER;
  ALTER TABLE runs ADD COLUMN wake_at INTEGER;
  CREATE INDEX runs_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;
  DROP INDEX runs_unfinished;
  CREATE INDEX runs_unfinished ON runs (queued_at, seq, state) WHERE state IN ('queued', 'running', 'waiting');
  DROP INDEX runs_unfinished_tree;
  CREATE INDEX runs_unfinished_tree ON runs (root_key, requester_key) WHERE state IN ('queued', 'running', 'waiting');
  `,
  `
  -- Who is alive, and who works on what.
  CREATE TABLE nodes (id TEXT PRIMARY KEY, started_at INTEGER NOT NULL) STRICT;
  ALTER TABLE runs ADD COLUMN owner TEXT;
  ALTER TABLE inbox ADD COLUMN owner TEXT;
  ALTER TABLE outbox ADD COLUMN owner TEXT;
  CREATE INDEX runs_owned ON runs (owner) WHERE state = 'running';
  CREATE INDEX inbox_owned ON inbox (owner, session_key) WHERE state = 'waiting' AND owner IS NOT NULL;
  CREATE INDEX outbox_owned ON outbox (owner) WHERE state = 'sending';
  `,
];

/** What they leave: a database that says it is up to date must have all of them. */
export const TABLES: readonly string[] = [
  ...["inbox", "channel_cursor", "channel_account", "outbox", "tries", "sessions", "spend", "runs", "run_messages", "notes"],
  ...["listings", "scratchpad", "briefs", "people", "pairing_codes", "web_messages", "browsers", "nodes"],
];
