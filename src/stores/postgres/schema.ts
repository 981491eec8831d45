// The tables in PostgreSQL: those of stores/schema.ts under the same names, and what a process on its own keeps in files or in memory
// (transcripts, documents, lanes, who is alive). Numbered like there; steps are additive, so that an older process beside a newer one
// goes on working (SO8), and a step that shipped is never edited.
// Written in SQLite's words for types (`inPostgres`). Texts compare and sort bytewise, whatever the database's own collation is: keys
// that differ must differ, and ranges of keys are read by their first characters.

export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE inbox (
    id SERIAL_KEY,
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    external_id TEXT NOT NULL,
    raw TEXT,
    state TEXT NOT NULL CHECK (state IN ('new', 'waiting', 'done')),
    session_key TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    received_at INTEGER NOT NULL,
    done_at INTEGER,
    owner TEXT,
    UNIQUE (channel, account, external_id)
  );
  CREATE INDEX inbox_new ON inbox (id) WHERE state = 'new';
  CREATE INDEX inbox_waiting ON inbox (session_key, id) WHERE state = 'waiting';
  CREATE INDEX inbox_done ON inbox (done_at) WHERE state = 'done';
  CREATE INDEX inbox_owned ON inbox (owner, session_key) WHERE state = 'waiting' AND owner IS NOT NULL;
  CREATE TABLE channel_cursor (
    channel TEXT NOT NULL, account TEXT NOT NULL, value TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (channel, account)
  );
  CREATE TABLE channel_account (channel TEXT PRIMARY KEY, account TEXT NOT NULL);

  CREATE TABLE outbox (
    id SERIAL_KEY,
    delivery TEXT NOT NULL,
    n INTEGER NOT NULL,
    parts INTEGER NOT NULL,
    address TEXT NOT NULL,
    address_key TEXT NOT NULL,
    part TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'sending', 'unknown', 'joined', 'sent', 'blocked', 'withdrawn')),
    rank INTEGER NOT NULL,
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
    joined_as TEXT,
    joined_part TEXT,
    alone INTEGER NOT NULL DEFAULT 0,
    owner TEXT,
    UNIQUE (delivery, n)
  );
  CREATE INDEX outbox_open ON outbox (address_key, aside, rank, id) WHERE state IN ('queued', 'sending', 'unknown');
  CREATE INDEX outbox_aside ON outbox (address_key, not_before, id) WHERE aside = 1 AND state IN ('queued', 'sending', 'unknown');
  CREATE INDEX outbox_settled ON outbox (settled_at) WHERE state IN ('sent', 'blocked', 'withdrawn');
  CREATE INDEX outbox_run ON outbox (run_id) WHERE run_id IS NOT NULL;
  CREATE INDEX outbox_joined ON outbox (joined_as) WHERE joined_as IS NOT NULL;
  CREATE INDEX outbox_owned ON outbox (owner) WHERE state = 'sending';

  CREATE TABLE tries (work TEXT PRIMARY KEY, deaths INTEGER NOT NULL, at INTEGER NOT NULL);

  CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    address TEXT,
    parent_key TEXT,
    model TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER
  );
  CREATE UNIQUE INDEX sessions_open ON sessions (key) WHERE ended_at IS NULL;
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
  );
  CREATE INDEX spend_day ON spend (day);

  CREATE TABLE runs (
    seq SERIAL_KEY,
    id TEXT NOT NULL UNIQUE,
    spawn_key TEXT NOT NULL UNIQUE,
    child_key TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    requester_key TEXT NOT NULL,
    requester_session_id TEXT NOT NULL,
    requester_run_id TEXT,
    root_key TEXT NOT NULL,
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
    deadline_at INTEGER,
    steps INTEGER NOT NULL DEFAULT 0,
    ended_at INTEGER,
    input INTEGER, output INTEGER, cache_read INTEGER, cache_write INTEGER, cost_usd REAL,
    reason TEXT,
    incomplete INTEGER NOT NULL DEFAULT 0,
    doing TEXT,
    waits TEXT,
    waiting_since INTEGER,
    wake_at INTEGER,
    settled_at INTEGER,
    archived_at INTEGER,
    archive_name TEXT,
    plan TEXT,
    sections TEXT,
    documented INTEGER NOT NULL DEFAULT 0,
    first_message TEXT,
    owner TEXT
  );
  CREATE INDEX runs_unfinished ON runs (queued_at, seq, state) WHERE state IN ('queued', 'running', 'waiting');
  CREATE INDEX runs_unfinished_tree ON runs (root_key, requester_key) WHERE state IN ('queued', 'running', 'waiting');
  CREATE INDEX runs_requester ON runs (requester_key, seq);
  CREATE INDEX runs_parent ON runs (requester_run_id, seq) WHERE requester_run_id IS NOT NULL;
  CREATE INDEX runs_undocumented ON runs (ended_at) WHERE ended_at IS NOT NULL AND documented < generation;
  CREATE INDEX runs_blocked ON runs (seq) WHERE delivery = 'blocked';
  CREATE INDEX runs_archive ON runs (cleanup, settled_at) WHERE settled_at IS NOT NULL AND archived_at IS NULL;
  CREATE INDEX runs_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;
  CREATE INDEX runs_owned ON runs (owner) WHERE state = 'running';

  CREATE TABLE run_messages (
    id SERIAL_KEY,
    run_id TEXT NOT NULL,
    sender TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    taken_at INTEGER
  );
  CREATE INDEX run_messages_open ON run_messages (run_id, id) WHERE taken_at IS NULL;
  CREATE INDEX run_messages_taken ON run_messages (taken_at) WHERE taken_at IS NOT NULL;
  CREATE TABLE notes (
    id SERIAL_KEY,
    session_id TEXT NOT NULL,
    about TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    taken_at INTEGER
  );
  CREATE INDEX notes_open ON notes (session_id, id) WHERE taken_at IS NULL;
  CREATE INDEX notes_taken ON notes (taken_at) WHERE taken_at IS NOT NULL;

  CREATE TABLE listings (session_key TEXT PRIMARY KEY, run_ids TEXT NOT NULL, at INTEGER NOT NULL);
  CREATE TABLE scratchpad (
    session_key TEXT NOT NULL, section TEXT NOT NULL, text TEXT NOT NULL, updated_at INTEGER NOT NULL,
    PRIMARY KEY (session_key, section)
  );
  CREATE TABLE briefs (
    session_id TEXT NOT NULL, requester_key TEXT NOT NULL, brief TEXT NOT NULL, applied_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, requester_key)
  );

  CREATE TABLE people (
    channel TEXT NOT NULL, account TEXT NOT NULL, sender_id TEXT NOT NULL, sender_name TEXT NOT NULL, address TEXT,
    state TEXT NOT NULL CHECK (state IN ('paired', 'refused')), at INTEGER NOT NULL, told_at INTEGER,
    PRIMARY KEY (channel, account, sender_id)
  );
  CREATE INDEX people_untold ON people (at) WHERE told_at IS NULL;
  CREATE TABLE pairing_codes (
    code TEXT PRIMARY KEY, channel TEXT NOT NULL, account TEXT NOT NULL, sender_id TEXT NOT NULL, sender_name TEXT NOT NULL,
    address TEXT NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL,
    UNIQUE (channel, account, sender_id)
  );

  CREATE TABLE web_messages (
    seq SERIAL_KEY,
    chat TEXT NOT NULL,
    key TEXT NOT NULL UNIQUE,
    author TEXT NOT NULL CHECK (author IN ('user', 'agent')),
    text TEXT NOT NULL,
    extra TEXT,
    at INTEGER NOT NULL
  );
  CREATE INDEX web_messages_chat ON web_messages (chat, seq);
  CREATE TABLE browsers (
    id TEXT PRIMARY KEY,
    cookie_hash TEXT NOT NULL UNIQUE,
    key_hash TEXT NOT NULL,
    token_mark TEXT NOT NULL,
    signed_in_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    seen_from TEXT NOT NULL,
    agent TEXT NOT NULL
  );
  -- What is one for the whole installation and stands in a file of the state folder otherwise: the page's token.
  CREATE TABLE kept (name TEXT PRIMARY KEY, value TEXT NOT NULL);

  -- Who is alive: a process, from its start until its row is deleted. The beat grows with each renewal of its lease; who sees it
  -- stand still for the length of a lease deletes the row. No time of day is in it: a clock that is set kills nobody and keeps
  -- nobody alive. Renewed all the time, so there is room for it on its page.
  CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    started_at INTEGER NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    role TEXT NOT NULL,
    -- The agents it can run, how much at a time in each lane, the tools its settings deny: as JSON.
    agents TEXT NOT NULL,
    limits TEXT NOT NULL,
    denies TEXT NOT NULL,
    beat INTEGER NOT NULL DEFAULT 0,
    seen_at INTEGER NOT NULL
  ) WITH (fillfactor = 20);
  -- Who does what only one may do at a time.
  CREATE TABLE leaders (duty TEXT PRIMARY KEY, owner TEXT NOT NULL);

  -- What waits and runs in a lane (lanes/shared-lane.ts). owner: the node that works on it.
  CREATE TABLE lane_jobs (
    lane TEXT NOT NULL,
    id TEXT NOT NULL,
    grp TEXT NOT NULL,
    agent TEXT NOT NULL,
    -- 1: work half done, outside of virtual time.
    front INTEGER NOT NULL,
    tag INTEGER NOT NULL,
    seq INTEGER NOT NULL GENERATED BY DEFAULT AS IDENTITY,
    rung_at INTEGER NOT NULL,
    owner TEXT,
    -- Tells this claim of its owner from the one before: the end of that one may come late.
    claim INTEGER,
    -- Rung while it was worked on: 1, or 2 for the front.
    again INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (lane, id)
  );
  CREATE INDEX lane_jobs_waiting ON lane_jobs (lane, front DESC, tag, seq) WHERE owner IS NULL;
  CREATE INDEX lane_jobs_owned ON lane_jobs (lane, owner) WHERE owner IS NOT NULL;
  -- Virtual time, and where each group stands in it.
  CREATE TABLE lane_times (lane TEXT PRIMARY KEY, now INTEGER NOT NULL);
  CREATE TABLE lane_groups (lane TEXT NOT NULL, grp TEXT NOT NULL, last_tag INTEGER NOT NULL, PRIMARY KEY (lane, grp));

  -- What stands in <sessionId>.jsonl otherwise: a row for each line behind the header.
  CREATE TABLE transcripts (
    session_id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    header TEXT NOT NULL,
    last_n INTEGER NOT NULL DEFAULT 0,
    last_id TEXT,
    archive_name TEXT
  );
  CREATE INDEX transcripts_archived ON transcripts (agent_id, archive_name) WHERE archive_name IS NOT NULL;
  CREATE TABLE transcript_entries (
    session_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session_id, n)
  );
  -- What stands in the folder beside it.
  CREATE TABLE documents (
    session_id TEXT NOT NULL,
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (session_id, name)
  );
  `,
];

/** Tables that can be moved from one kind of database to the other as they are, in this order (app/move.ts). */
export const SHARED_TABLES: readonly string[] = [
  ...["inbox", "channel_cursor", "channel_account", "outbox", "tries", "sessions", "spend", "runs", "run_messages", "notes"],
  ...["listings", "scratchpad", "briefs", "people", "pairing_codes", "web_messages", "browsers"],
];

export const inPostgres = (sql: string): string =>
  sql
    .replaceAll("SERIAL_KEY", "INTEGER GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY")
    .replaceAll(/\bTEXT\b/g, 'text COLLATE "C"')
    .replaceAll(/\bINTEGER\b/g, "bigint")
    .replaceAll(/\bREAL\b/g, "double precision");
