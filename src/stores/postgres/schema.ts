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
  `
  -- What people are asked, each for one call of a tool; and what they allowed for good (QA).
  CREATE TABLE questions (
    id TEXT PRIMARY KEY,
    call_key TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('ask', 'approve')),
    root_key TEXT NOT NULL,
    session_id TEXT NOT NULL,
    run_id TEXT,
    generation INTEGER NOT NULL,
    turn_id TEXT NOT NULL,
    address TEXT NOT NULL,
    asker TEXT NOT NULL,
    text TEXT NOT NULL,
    options TEXT NOT NULL,
    tool TEXT,
    digest TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'expired', 'void')),
    answer TEXT,
    verdict TEXT,
    answered_by TEXT,
    settled_at INTEGER,
    used_at INTEGER,
    late TEXT
  );
  CREATE INDEX questions_open ON questions (root_key, created_at) WHERE state = 'open';
  CREATE INDEX questions_run ON questions (run_id) WHERE state = 'open';
  CREATE INDEX questions_settled ON questions (settled_at) WHERE settled_at IS NOT NULL;
  CREATE TABLE approval_rules (
    id TEXT PRIMARY KEY,
    -- A chat by its main session's key, or one generation of one run, or one turn.
    scope TEXT NOT NULL,
    tool TEXT NOT NULL,
    given_by TEXT NOT NULL,
    at INTEGER NOT NULL,
    UNIQUE (scope, tool)
  );
  -- Messages of ours that change while they stand (LV): a batch's status, a question and what became of it.
  CREATE TABLE live_messages (
    id TEXT PRIMARY KEY,
    address TEXT NOT NULL,
    address_key TEXT NOT NULL,
    -- new: not posted yet; posted: on its way through the outbox; shown: it stands under ref; closed: it changes no more; gone: removed.
    state TEXT NOT NULL CHECK (state IN ('new', 'posted', 'shown', 'closed', 'gone')),
    ref TEXT,
    -- A digest of what stands there.
    shown TEXT,
    not_before INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
  );
  CREATE INDEX live_messages_open ON live_messages (created_at) WHERE state IN ('new', 'posted', 'shown');
  CREATE INDEX live_messages_ref ON live_messages (address_key, ref) WHERE ref IS NOT NULL;
  CREATE INDEX live_messages_over ON live_messages (changed_at) WHERE state IN ('closed', 'gone');
  -- Announcements held back until their digest is due (AP1); delivery: the digest they went out with.
  CREATE TABLE digest_items (
    run_id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    address TEXT NOT NULL,
    address_key TEXT NOT NULL,
    held_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    message TEXT NOT NULL,
    delivery TEXT,
    PRIMARY KEY (run_id, generation)
  );
  CREATE INDEX digest_items_held ON digest_items (address_key, held_at) WHERE delivery IS NULL;
  CREATE INDEX digest_items_sent ON digest_items (delivery) WHERE delivery IS NOT NULL;
  -- Where a draft of its answer stands (LV6), or begun:<ms> as long as nobody knows; null: nowhere.
  ALTER TABLE inbox ADD COLUMN draft TEXT;
  ALTER TABLE runs ADD COLUMN person TEXT;
  ALTER TABLE runs ADD COLUMN batch TEXT;
  ALTER TABLE runs ADD COLUMN announcing TEXT;
  ALTER TABLE runs ADD COLUMN rerun_of TEXT;
  CREATE INDEX runs_rerun ON runs (rerun_of) WHERE rerun_of IS NOT NULL;
  -- What is spent and held at each level that has a limit, and the holds themselves (BG). lasting: kept for a run's last call, until its end.
  CREATE TABLE budget_levels (
    id TEXT PRIMARY KEY,
    spent_usd INTEGER NOT NULL,
    spent_tokens INTEGER NOT NULL,
    held_usd INTEGER NOT NULL,
    held_tokens INTEGER NOT NULL,
    kept_usd INTEGER NOT NULL,
    kept_tokens INTEGER NOT NULL,
    warned INTEGER NOT NULL DEFAULT 0,
    at INTEGER NOT NULL
  );
  CREATE INDEX budget_levels_old ON budget_levels (at);
  CREATE TABLE budget_holds (
    id TEXT PRIMARY KEY,
    owner TEXT,
    levels TEXT NOT NULL,
    usd INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    lasting INTEGER NOT NULL DEFAULT 0,
    at INTEGER NOT NULL
  );
  ALTER TABLE runs ADD COLUMN budget TEXT;
  ALTER TABLE runs ADD COLUMN message TEXT;
  CREATE INDEX runs_batch ON runs (batch) WHERE batch IS NOT NULL;
  -- When a message of the page's chat was changed last; grows with every change in a chat, so a tab goes on behind the last it saw.
  ALTER TABLE web_messages ADD COLUMN edited_at INTEGER;
  CREATE INDEX web_messages_edited ON web_messages (chat, edited_at) WHERE edited_at IS NOT NULL;
  -- Runs that belong together (GR): what is waited for, and what comes then. open: not all that is waited for has come.
  CREATE TABLE run_groups (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    root_key TEXT NOT NULL,
    requester_key TEXT NOT NULL,
    requester_session_id TEXT NOT NULL,
    requester_run_id TEXT,
    address TEXT NOT NULL,
    person TEXT,
    -- How many successes are enough; null: all have to end.
    enough INTEGER,
    announce TEXT NOT NULL CHECK (announce IN ('together', 'each')),
    wakes INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'complete')),
    created_at INTEGER NOT NULL,
    completed_at INTEGER
  );
  CREATE INDEX run_groups_of ON run_groups (requester_key, created_at);
  -- What each of a group has to say, until it is said together. delivery: the announcement it went out with.
  CREATE TABLE group_results (
    run_id TEXT PRIMARY KEY,
    group_id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    result TEXT NOT NULL,
    delivery TEXT
  );
  CREATE INDEX group_results_of ON group_results (group_id);
  CREATE INDEX group_results_said ON group_results (delivery) WHERE delivery IS NOT NULL;
  ALTER TABLE runs ADD COLUMN group_id TEXT;
  CREATE INDEX runs_group ON runs (group_id) WHERE group_id IS NOT NULL;
  -- What was checked of it, how often it was told to put it right, its typed result and what of it did not fit (EV, TR).
  ALTER TABLE runs ADD COLUMN checks TEXT;
  ALTER TABLE runs ADD COLUMN check_rounds INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE runs ADD COLUMN data TEXT;
  ALTER TABLE runs ADD COLUMN misfits TEXT;
  -- Every change of a child's briefs, in order: what stands in briefs is what they come to. requester_key: whose it was, null: all of them;
  -- brief: the new one, null: taken back; replaces: whose it took the place of; changed_by: who did it.
  CREATE TABLE brief_changes (
    id SERIAL_KEY,
    session_id TEXT NOT NULL,
    requester_key TEXT,
    brief TEXT,
    replaces TEXT,
    changed_by TEXT NOT NULL,
    at INTEGER NOT NULL
  );
  CREATE INDEX brief_changes_of ON brief_changes (session_id, id);
  INSERT INTO brief_changes (session_id, requester_key, brief, changed_by, at)
    SELECT session_id, requester_key, brief, requester_key, applied_at FROM briefs ORDER BY applied_at, requester_key;
  `,
  `
  -- The conversations of people, among all those of sub-agents.
  CREATE INDEX sessions_chats ON sessions (created_at, id) WHERE parent_key IS NULL AND ended_at IS NULL;
  -- What was used on each day, by whom and where (WB6). channel, person: '' where there is none; unpriced: calls without a known price.
  CREATE TABLE ledger (
    day TEXT NOT NULL,
    model TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    person TEXT NOT NULL,
    person_name TEXT,
    runs INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    unpriced INTEGER NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    PRIMARY KEY (day, model, agent_id, channel, person)
  );
  INSERT INTO ledger (day, model, agent_id, channel, person, runs, calls, unpriced, input, output, cost_usd)
    SELECT spend.day, spend.model, sessions.agent_id, coalesce(substring(sessions.address from '"channel":"([a-z]+)"'), ''), '', 0, sum(calls),
      sum(CASE WHEN cost_usd IS NULL THEN calls ELSE 0 END), sum(input), sum(output), coalesce(sum(cost_usd), 0)
    FROM spend JOIN sessions ON sessions.id = spend.session_id GROUP BY 1, 2, 3, 4;
  INSERT INTO ledger (day, model, agent_id, channel, person, runs, calls, unpriced, input, output, cost_usd)
    SELECT to_char(to_timestamp(created_at / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD'), model, agent_id, coalesce(substring(address from '"channel":"([a-z]+)"'), ''), '', count(*), 0, 0, 0, 0, 0
    FROM runs WHERE true GROUP BY 1, 2, 3, 4
    ON CONFLICT (day, model, agent_id, channel, person) DO UPDATE SET runs = ledger.runs + excluded.runs;
  -- The page's chats (WB3). replaced_by: the key of the message that stands in the place of this one and of what answered it.
  ALTER TABLE web_messages ADD COLUMN replaced_by TEXT;
  -- What people call a chat, where they gave it a name.
  CREATE TABLE web_chats (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL
  );
  -- Of a deleted chat: the name its transcript is still to be given; null: nothing is left to do.
  ALTER TABLE sessions ADD COLUMN to_archive TEXT;
  CREATE INDEX sessions_to_archive ON sessions (id) WHERE to_archive IS NOT NULL;
  -- Files of messages (CH2); their bytes lie beside it. origin: where it comes from, once; message: what it was sent with, null: nothing yet.
  CREATE TABLE attachments (
    id TEXT PRIMARY KEY,
    origin TEXT NOT NULL UNIQUE,
    chat TEXT NOT NULL,
    message TEXT,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    size INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    facts TEXT NOT NULL,
    at INTEGER NOT NULL
  );
  CREATE INDEX attachments_at ON attachments (at);
  CREATE INDEX attachments_chat ON attachments (chat, at);
  -- The bytes, in base64: whole once its row above is there.
  CREATE TABLE attachment_pieces (
    attachment_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    data TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (attachment_id, n)
  );
  CREATE INDEX attachment_pieces_begun ON attachment_pieces (at) WHERE n = 0;
  -- Tokens of other programs (PR1): only the hash of what they hold. address: the chat their runs are announced in.
  CREATE TABLE program_tokens (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    agent_id TEXT,
    address TEXT,
    created_at INTEGER NOT NULL,
    used_at INTEGER,
    expires_at INTEGER
  );
  `,
  `
  -- The last transaction of each connection (commit.ts), for when the answer to its COMMIT is lost. Written with every one of them, so
  -- there is room for it on its page, and no index on what changes.
  CREATE TABLE commits (
    line TEXT PRIMARY KEY,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL
  ) WITH (fillfactor = 50);
  `,
];

/** Tables that can be moved from one kind of database to the other as they are, in this order (app/move.ts). */
export const SHARED_TABLES: readonly string[] = [
  ...["inbox", "channel_cursor", "channel_account", "outbox", "tries", "sessions", "spend", "runs", "run_messages", "notes"],
  ...["listings", "scratchpad", "briefs", "people", "pairing_codes", "web_messages", "browsers"],
  ...["questions", "approval_rules", "live_messages", "digest_items", "budget_levels", "budget_holds"],
  ...["run_groups", "group_results", "brief_changes", "ledger", "web_chats", "attachments", "program_tokens"],
];

export const inPostgres = (sql: string): string =>
  sql
    .replaceAll("SERIAL_KEY", "INTEGER GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY")
    .replaceAll(/\bTEXT\b/g, 'text COLLATE "C"')
    .replaceAll(/\bINTEGER\b/g, "bigint")
    .replaceAll(/\bREAL\b/g, "double precision");
