// What somebody asked for, out of what the gateway puts around it (gateway/request.ts, gateway/attaching.ts): whom it is from in a group,
// the message it answers or forwards, the files that came along. None of that is a request: carried out, another's words would be orders.

/** The message that is answered or forwarded: somebody else's words, to read and not to run. */
const OTHERS =
  /^<untrusted ([0-9a-f]{12}) from="(?:the message being answered|a forwarded message)[^\n]*>\n[\s\S]*?\n<\/untrusted \1>(?:\n|$)/;
const FILE =
  /^\[(?:Attached|Not attached:) [^\n]*\](?:\n<untrusted ([0-9a-f]{12}) from="attached file [^\n]*>\n[\s\S]*?\n<\/untrusted \1>)?(?:\n|$)/gm;
const SENDER = /^\[from (?:"(?:[^"\\\n]|\\.)*"|whoever runs this gateway, on its page)\](?:\n|$)/;
/** The platform's own words for a file (`[photo tower.jpg 12 KB]`), before theirs. */
const FILE_NOTE = /^(?:\[(?:file|photo|voice message|video|audio|animation)(?: [^[\]\n]*)?\](?:\n|$))+/;
/** As the gateway names where it lies; a full stop behind it is no part of it. */
const PLACE = /, in the workspace as (attachments\/[\p{L}\p{N}._-]*[\p{L}\p{N}_-])/u;

export function ownWords(text: string): string {
  const about = text.replace(OTHERS, "");
  const said = about.replace(FILE, "");
  const words = said.replace(SENDER, "");
  return said === about ? words : words.replace(FILE_NOTE, "") || filesAlone(about.match(FILE) ?? []);
}

/** Without a word beside them it is only said where they lie: these, not all of the folder, where those of other people are, too. */
function filesAlone(files: readonly string[]): string {
  const places = files.flatMap((file) => PLACE.exec(file)?.slice(1) ?? []).map((place) => `\`${place}\``);
  return places.length === 0 ? "hello" : `say It lies in the workspace as ${places.join(", ")}. What shall I do with it?`;
}
