// Numbers and times as people read them.

const timeFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const secondsFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFormat = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const fullFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

export const clockTime = (at) => timeFormat.format(at);
/** With its seconds, for what comes step by step. */
export const clockSeconds = (at) => secondsFormat.format(at);
export const fullTime = (at) => fullFormat.format(at);
export const dayKey = (at) => new Date(at).toDateString();

export function dayName(at) {
  const key = dayKey(at);
  if (key === dayKey(Date.now())) return "Today";
  if (key === dayKey(Date.now() - 24 * 3600 * 1000)) return "Yesterday";
  return dayFormat.format(at);
}

/** 42s, 5m12s, 2h03m, 3d */
export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m${String(seconds % 60).padStart(2, "0")}s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}h${String(minutes % 60).padStart(2, "0")}m`;
  return `${Math.floor(hours / 24)}d`;
}

/** How long one step took: 340ms, 1.2s, 42s, 5m12s. */
export function took(ms) {
  if (ms < 1000) return `${Math.max(0, ms)}ms`;
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)}s` : duration(ms);
}

export function tokens(count) {
  if (count < 1000) return `${count} tokens`;
  if (count < 1_000_000) return `${(count / 1000).toFixed(1)}k tokens`;
  return `${(count / 1_000_000).toFixed(1)}M tokens`;
}

export const cost = (usd) => (usd > 0 && usd < 0.01 ? "< $0.01" : `$${usd.toFixed(2)}`);

/** A file's name as somebody gave it, before Herald has cleaned it: an override of the writing direction would show another ending. */
export const shownName = (name) => name.replace(/[\p{Cc}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu, "").toWellFormed();

/** 900 B, 12 KB, 3.4 MB */
export function bytes(count) {
  if (count < 1024) return `${count} B`;
  return count < 1024 * 1024 ? `${Math.round(count / 1024)} KB` : `${(count / 1024 / 1024).toFixed(1)} MB`;
}
