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
  ) STRICT;
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
  ) STRICT;
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
  ) STRICT;
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
  ) STRICT;
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
  ) STRICT;
  CREATE INDEX budget_levels_old ON budget_levels (at);
  CREATE TABLE budget_holds (
    id TEXT PRIMARY KEY,
    owner TEXT,
    levels TEXT NOT NULL,
    usd INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    lasting INTEGER NOT NULL DEFAULT 0,
    at INTEGER NOT NULL
  ) STRICT;
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
  ) STRICT;
  CREATE INDEX run_groups_of ON run_groups (requester_key, created_at);
  -- What each of a group has to say, until it is said together. delivery: the announcement it went out with.
  CREATE TABLE group_results (
    run_id TEXT PRIMARY KEY,
    group_id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    result TEXT NOT NULL,
    delivery TEXT
  ) STRICT;
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
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    requester_key TEXT,
    brief TEXT,
    replaces TEXT,
    changed_by TEXT NOT NULL,
    at INTEGER NOT NULL
  ) STRICT;
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
  ) STRICT, WITHOUT ROWID;
  INSERT INTO ledger (day, model, agent_id, channel, person, runs, calls, unpriced, input, output, cost_usd)
    SELECT spend.day, spend.model, sessions.agent_id, coalesce(CASE WHEN json_valid(sessions.address) THEN json_extract(sessions.address, '$.channel') END, ''), '', 0, sum(calls),
      sum(CASE WHEN cost_usd IS NULL THEN calls ELSE 0 END), sum(input), sum(output), coalesce(sum(cost_usd), 0)
    FROM spend JOIN sessions ON sessions.id = spend.session_id GROUP BY 1, 2, 3, 4;
  INSERT INTO ledger (day, model, agent_id, channel, person, runs, calls, unpriced, input, output, cost_usd)
    SELECT strftime('%Y-%m-%d', created_at / 1000, 'unixepoch'), model, agent_id, coalesce(CASE WHEN json_valid(address) THEN json_extract(address, '$.channel') END, ''), '', count(*), 0, 0, 0, 0, 0
    FROM runs WHERE true GROUP BY 1, 2, 3, 4
    ON CONFLICT (day, model, agent_id, channel, person) DO UPDATE SET runs = ledger.runs + excluded.runs;
  -- The page's chats (WB3). replaced_by: the key of the message that stands in the place of this one and of what answered it.
  ALTER TABLE web_messages ADD COLUMN replaced_by TEXT;
  -- What people call a chat, where they gave it a name.
  CREATE TABLE web_chats (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL
  ) STRICT;
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
  ) STRICT;
  CREATE INDEX attachments_at ON attachments (at);
  CREATE INDEX attachments_chat ON attachments (chat, at);
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
  ) STRICT;
  `,
];

/** What they leave: a database that says it is up to date must have all of them. */
export const TABLES: readonly string[] = [
  ...["inbox", "channel_cursor", "channel_account", "outbox", "tries", "sessions", "spend", "runs", "run_messages", "notes"],
  ...["listings", "scratchpad", "briefs", "people", "pairing_codes", "web_messages", "browsers", "nodes"],
  ...["questions", "approval_rules", "live_messages", "digest_items", "budget_levels", "budget_holds"],
  ...["run_groups", "group_results", "brief_changes", "ledger", "web_chats", "attachments", "program_tokens"],
];
