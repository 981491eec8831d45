// Where somebody is on the page, as its address says it, so that back, forward, bookmarks and links work:
// #/chat/<id> · #/runs?<filters> · #/run/<id> · #/session/<id> · #/usage?<range> · #/setup/<section>, each with ?run=<id> for the run that is open beside
// it and ?with=<id> for the one it is held against. An address nobody made is taken as far as it makes sense.
const UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";
const CHAT = new RegExp(`^(?:main|${UUID})$`);
const RUN = new RegExp(`^${UUID}$`);
const WORD = /^[a-z][a-z-]{0,30}$/;
const VIEWS = ["chat", "runs", "run", "session", "usage", "setup"];
/** A longer one is nobody's. */
const MAX_HASH = 8_000;

const ids = { isChat: (text) => CHAT.test(text), isRun: (text) => RUN.test(text) };

/**
 * `{view, chat, run, other, session, section, query}`: the chat is null where the address names none, `query` is a Map of what else stands
 * behind the question mark, for the view to read.
 */
export function readPlace(hash = location.hash) {
  const text = hash.slice(1, MAX_HASH);
  const [path, search = ""] = text.startsWith("/") ? split(text, "?") : oldPath(text);
  const [, named = "chat", what = ""] = path.split("/");
  const view = VIEWS.includes(named) ? named : "chat";
  const query = new Map(new URLSearchParams(search));
  const run = view === "run" ? what : (query.get("run") ?? "");
  const other = query.get("with") ?? "";
  for (const name of ["run", "with"]) query.delete(name);
  const isRun = ids.isRun(run);
  const session = view === "session" && ids.isRun(what) ? what : null;
  return {
    // A run's page without a run is the board, and so is a conversation's without one.
    view: (view === "run" && !isRun) || (view === "session" && session === null) ? "runs" : view,
    session,
    chat: view === "chat" && ids.isChat(what) ? what : view === "chat" ? "main" : null,
    run: isRun ? run : null,
    other: isRun && ids.isRun(other) ? other : null,
    section: view === "setup" && WORD.test(what) ? what : null,
    query,
  };
}

/** Its address; whatever is left out is not named. */
export function addressOf({ view = "chat", chat = "main", run = null, other = null, session = null, section = null, query = new Map() }) {
  const named = new URLSearchParams([...query]);
  if (run !== null && view !== "run") named.set("run", run);
  if (other !== null) named.set("with", other);
  const behind = named.size === 0 ? "" : `?${named}`;
  const what = { chat: chat ?? "main", run, session, setup: section }[view] ?? null;
  if (view === "chat" && what === "main" && behind === "") return "#/";
  return `#/${view}${what === null ? "" : `/${what}`}${behind}`;
}

/** As links were before the page had more than a chat: `#chat=<id>&run=<id>&with=<id>`. They stand in announcements. */
function oldPath(text) {
  const query = new URLSearchParams(text);
  const chat = query.get("chat") ?? "main";
  query.delete("chat");
  return [`/chat/${chat}`, query.toString()];
}

function split(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}
