// The fake's Web API: form-encoded calls with a token, Slack's error codes, and faults before or after execution.
import type { IncomingMessage, ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { isAfter, respondJson, type Strike, spoil } from "./fake-platform.ts";
import { buttonsOf, callsSomebody, checkMessage, shownText } from "./fake-slack-rules.ts";
import { type Call, type Channel, channelOf, type Fault, nextId, nextTs, type SeenMessage, type State, wake } from "./fake-slack-state.ts";
import { deleteMessage, goOn, startStream } from "./fake-slack-streams.ts";

type Answer = Record<string, unknown> & { ok: boolean };
const refuse = (error: string, more: object = {}): Answer => ({ ok: false, error, ...more });

export async function handleCall(state: State, request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.url?.startsWith("/files-pri/") === true) return handOut(state, request, response);
  const [, way, rest = ""] = /^\/(api|commands|upload)\/([^?]*)/.exec(request.url ?? "") ?? [];
  const method = way === "commands" ? "response_url" : way === "upload" ? "upload_url" : rest;
  const bytes = await buffer(request);
  const body = bytes.toString("utf8");
  const args = way === "api" ? Object.fromEntries(new URLSearchParams(body)) : { id: rest, body };
  const call: Call = { method, args, at: state.now(), executed: false };
  state.calls.push(call);
  wake(state);
  const fault = state.faults.take(method);
  if (fault !== null && !isAfter(fault.fault)) {
    if (fault.fault !== "slow") return strike(response, fault);
    await new Promise((resolve) => setTimeout(resolve, fault.options.delayMs ?? 100));
  }
  const token = (request.headers.authorization ?? "").replace(/^Bearer /, "");
  const given = { commands: () => respondToCommand(state, rest, body), upload: () => takeBytes(state, rest, bytes) };
  const answer = way === "commands" || way === "upload" ? given[way]() : execute(state, method, args, token);
  call.executed = answer.ok;
  wake(state);
  if (fault !== null && isAfter(fault.fault)) return strike(response, fault, answer);
  respondJson(response, way !== "api" && !answer.ok ? 404 : 200, answer);
}

/** What people attached: without the bot's token one is led to a page to sign in at. */
function handOut(state: State, request: IncomingMessage, response: ServerResponse): void {
  const id = request.url?.slice("/files-pri/".length) ?? "";
  const bytes = state.uploads.get(id);
  const isAllowed = request.headers.authorization === `Bearer ${state.botToken}`;
  state.calls.push({ method: "download", args: { id }, at: state.now(), executed: isAllowed });
  wake(state);
  const fault = state.faults.take("download");
  if (!isAllowed || fault?.fault === "500")
    return void response.writeHead(isAllowed ? 500 : 302, { location: "https://slack.com/?redir" }).end();
  if (bytes === undefined) return void response.writeHead(404).end();
  response.writeHead(200, { "content-length": bytes.length });
  if (fault === null) return void response.end(bytes);
  response.write(bytes.subarray(0, Math.floor(bytes.length / 2)), () => {
    if (fault.fault === "drop") response.destroy();
  });
}

/** Five answers within half an hour, as a message only the person sees. */
function respondToCommand(state: State, id: string, body: string): Answer {
  const url = state.responseUrls.get(id);
  if (url === undefined || state.now() > url.expiresAt) return refuse("expired_url");
  if (url.usesLeft-- <= 0) return refuse("used_url");
  const { response_type: type, text: plain, blocks } = JSON.parse(body) as { response_type?: string; text: string; blocks: unknown };
  const checked = checkMessage({ text: plain, blocks: JSON.stringify(blocks) });
  if ("error" in checked) return refuse(checked.error);
  if (type !== "ephemeral") return refuse("the fake only takes ephemeral ones");
  const { text: fallback, blocks: shown } = checked.message;
  state.whispers.push({ channel: url.channel, user: url.user, thread: null, text: shownText(fallback, shown), blocks: shown, byUrl: true });
  return { ok: true };
}

function strike(response: ServerResponse, { fault, options }: Strike<Fault>, answer: Answer = { ok: true }): void {
  if (typeof fault === "object") return respondJson(response, 200, { ok: false, ...fault });
  switch (fault) {
    case "429":
      return respondJson(response, 429, refuse("ratelimited"), { "retry-after": String(options.retryAfter ?? 1) });
    case "429_bare":
      return respondJson(response, 429, refuse("ratelimited"));
    case "500":
    case "500_after":
      return respondJson(response, 500, refuse("internal_error"));
    case "cut_json_after": {
      const whole = JSON.stringify(answer);
      response.writeHead(200, { "content-type": "application/json" }).end(whole.slice(0, Math.floor(whole.length / 2)));
      return;
    }
    default:
      return spoil(response, fault, answer);
  }
}

function execute(state: State, method: string, args: Record<string, string>, token: string): Answer {
  if (state.missing.has(method)) return refuse("unknown_method");
  const expected = method === "apps.connections.open" ? state.appToken : state.botToken;
  if (token === "") return refuse("not_authed");
  if (token !== expected) return refuse("invalid_auth");
  switch (method) {
    case "auth.test":
      return {
        ok: true,
        url: "https://example.slack.com/",
        team: "Example",
        user: "herald",
        ...identity(state),
        ...state.extras.get(method),
      };
    case "bots.info":
      return args.bot === state.botId ? { ok: true, bot: { id: state.botId, app_id: state.appId } } : refuse("bot_not_found");
    case "apps.connections.open":
      return { ok: true, url: `${state.wsUrl}?ticket=${state.connections}` };
    case "chat.postMessage":
      return postMessage(state, args);
    case "files.getUploadURLExternal":
      return openUpload(state, args);
    case "files.completeUploadExternal":
      return shareFile(state, args);
    case "chat.postEphemeral":
      return postEphemeral(state, args);
    case "chat.update":
      return updateMessage(state, args);
    case "chat.delete":
      return inChannel(state, args, (channel) => deleteMessage(channel, args));
    case "chat.startStream":
      return inChannel(state, args, (channel) => startStream(state, channel, botMessage(state, channel, args.thread_ts ?? null), args));
    case "chat.appendStream":
    case "chat.stopStream":
      return inChannel(state, args, (channel) => goOn(channel, args, method === "chat.stopStream"));
    case "conversations.history":
    case "conversations.replies":
      return listMessages(state, args, method === "conversations.replies");
    case "conversations.open":
      return openDirect(state, args);
    case "reactions.add":
      return addReaction(state, args);
    case "agents.sessions.setStatus":
    case "assistant.threads.setStatus":
      return setStatus(state, args, method.startsWith("agents") ? "agent" : "assistant");
    default:
      return refuse("unknown_method");
  }
}

const identity = ({ teamId, botUser, botId }: State) => ({
  team_id: teamId,
  user_id: botUser,
  bot_id: botId,
  is_enterprise_install: false,
});

function findChannel(state: State, id: string | undefined): Channel | string {
  const channel = state.channels.get(id ?? "");
  if (channel === undefined) return "channel_not_found";
  return channel.trouble ?? channel;
}

/** `work`: the error's name, or the message it was about. */
function inChannel(state: State, args: Record<string, string>, work: (channel: Channel) => string | SeenMessage): Answer {
  const channel = findChannel(state, args.channel);
  const done = typeof channel === "string" ? channel : work(channel);
  return typeof done === "string" ? refuse(done) : { ok: true, channel: done.channel, ts: done.ts };
}

function postMessage(state: State, args: Record<string, string>): Answer {
  const channel = findChannel(state, args.channel);
  if (typeof channel === "string") return refuse(channel);
  const checked = checkMessage(args);
  if ("error" in checked) return refuse(checked.error);
  const thread = args.thread_ts ?? null;
  if (thread !== null && !channel.messages.some((message) => message.ts === thread && message.thread === null))
    return refuse("thread_not_found");
  const { text, blocks, metadata } = checked.message;
  const message: SeenMessage = {
    ...botMessage(state, channel, thread),
    ...{ text: shownText(text, blocks), fallback: text, blocks, buttons: buttonsOf(blocks), metadata },
    calls: callsSomebody(text, blocks),
    versions: [shownText(text, blocks)],
  };
  channel.messages.push(message);
  return { ok: true, channel: channel.id, ts: message.ts, message: { type: "message", text, ts: message.ts, bot_id: state.botId } };
}

function openUpload(state: State, args: Record<string, string>): Answer {
  const length = Number(args.length);
  if (!args.filename || !Number.isInteger(length) || length < 1) return refuse("invalid_arguments");
  const id = nextId(state, "F");
  state.files.set(id, { name: args.filename, length, content: null });
  return { ok: true, file_id: id, upload_url: `${state.origin}/upload/${id}` };
}

function takeBytes(state: State, id: string, bytes: Buffer): Answer {
  const file = state.files.get(id);
  if (file === undefined || bytes.length !== file.length) return refuse("bad_upload");
  file.content = bytes.toString("utf8");
  return { ok: true };
}

/** Shares it as often as it is asked to: that it happens once is the app's business. */
function shareFile(state: State, args: Record<string, string>): Answer {
  const channel = findChannel(state, args.channel_id);
  if (typeof channel === "string") return refuse(channel);
  const wanted = JSON.parse(args.files ?? "[]") as { id: string; title?: string }[];
  const files = wanted.map(({ id, title }) => ({ id, title: title ?? "", name: "", content: null, ...state.files.get(id) }));
  if (files.length === 0 || files.some(({ content }) => content === null)) return refuse("file_not_found");
  const thread = args.thread_ts ?? null;
  if (thread !== null && !channel.messages.some((message) => message.ts === thread && message.thread === null))
    return refuse("thread_not_found");
  const comment = args.initial_comment ?? "";
  const shown = files.map(({ id, name, title, content }) => ({ id, name, title, content: content ?? "" }));
  channel.messages.push({
    ...botMessage(state, channel, thread),
    text: comment,
    fallback: comment,
    files: shown,
    calls: callsSomebody(comment, []),
  });
  return { ok: true, files: wanted };
}

const botMessage = (state: State, channel: Channel, thread: string | null): SeenMessage => ({
  ts: nextTs(state),
  channel: channel.id,
  thread,
  text: "",
  fallback: "",
  blocks: [],
  buttons: [],
  metadata: null,
  user: state.botUser,
  fromBot: true,
  edits: 0,
  reactions: [],
  files: [],
  calls: false,
  streaming: null,
  versions: [],
});

function postEphemeral(state: State, args: Record<string, string>): Answer {
  const channel = findChannel(state, args.channel);
  if (typeof channel === "string") return refuse(channel);
  if (args.metadata !== undefined) return refuse("invalid_arguments");
  if (!/^[UW]/.test(args.user ?? "")) return refuse("user_not_found");
  const checked = checkMessage(args);
  if ("error" in checked) return refuse(checked.error);
  const { text: fallback, blocks } = checked.message;
  const thread = args.thread_ts ?? null;
  // Which of the two the real one does is not said: it may also take it and show it to nobody.
  if (thread !== null && !channel.messages.some((message) => message.ts === thread && message.thread === null))
    return refuse("thread_not_found");
  state.whispers.push({ channel: channel.id, user: args.user ?? "", thread, text: shownText(fallback, blocks), blocks, byUrl: false });
  return { ok: true, message_ts: nextTs(state) };
}

function updateMessage(state: State, args: Record<string, string>): Answer {
  const channel = findChannel(state, args.channel);
  if (typeof channel === "string") return refuse(channel);
  const message = channel.messages.find((one) => one.ts === args.ts);
  if (message === undefined) return refuse("message_not_found");
  if (!message.fromBot) return refuse("cant_update_message");
  if (message.streaming === "in_progress") return refuse("streaming_state_conflict");
  const checked = checkMessage(args);
  if ("error" in checked) return refuse(checked.error);
  const { text, blocks, metadata } = checked.message;
  Object.assign(message, { text: shownText(text, blocks), fallback: text, blocks, buttons: buttonsOf(blocks), edits: message.edits + 1 });
  if (metadata !== null) message.metadata = metadata;
  message.versions.push(message.text);
  message.calls ||= callsSomebody(text, blocks);
  return { ok: true, channel: channel.id, ts: message.ts, text };
}

/** history: the channel's own messages, newest first. replies: a thread in order, its root always among them. */
function listMessages(state: State, args: Record<string, string>, isThread: boolean): Answer {
  const channel = findChannel(state, args.channel);
  if (typeof channel === "string") return refuse(channel === "is_archived" ? "channel_not_found" : channel);
  const oldest = Number(args.oldest ?? 0);
  const limit = Math.min(Number(args.limit ?? 100), 999);
  const at = Number(args.cursor ?? 0);
  if (isThread && !channel.messages.some((message) => message.ts === args.ts)) return refuse("thread_not_found");
  const wanted = isThread
    ? channel.messages.filter((message) => message.ts === args.ts || (message.thread === args.ts && Number(message.ts) > oldest))
    : channel.messages.filter((message) => message.thread === null && Number(message.ts) > oldest).reverse();
  const messages = wanted.slice(at, at + limit).map((message) => ({
    type: "message",
    ts: message.ts,
    text: message.fallback,
    user: message.user,
    ...(message.thread === null ? {} : { thread_ts: message.thread }),
    ...(message.fromBot ? { bot_id: state.botId } : {}),
    ...(message.streaming === null ? {} : { streaming_state: message.streaming }),
    ...(message.files.length === 0 ? {} : { files: message.files.map(({ id, name, title }) => ({ id, name, title })) }),
    ...(message.metadata !== null && args.include_all_metadata === "true" ? { metadata: message.metadata } : {}),
  }));
  const more = at + limit < wanted.length;
  return { ok: true, messages, has_more: more, response_metadata: { next_cursor: more ? String(at + limit) : "" } };
}

/** The direct chat with one person: the same one however often it is opened. */
function openDirect(state: State, args: Record<string, string>): Answer {
  const user = args.users ?? "";
  if (!/^[UW][A-Z0-9]+$/.test(user)) return refuse("user_not_found");
  const trouble = state.closedTo.get(user);
  if (trouble !== undefined) return refuse(trouble);
  return { ok: true, channel: { id: channelOf(state, `D${user.slice(1)}`, "im").id } };
}

function addReaction(state: State, args: Record<string, string>): Answer {
  const channel = findChannel(state, args.channel);
  if (typeof channel === "string") return refuse(channel);
  const message = channel.messages.find((one) => one.ts === args.timestamp);
  if (message === undefined) return refuse("message_not_found");
  if (message.reactions.includes(args.name ?? "")) return refuse("already_reacted");
  message.reactions.push(args.name ?? "");
  return { ok: true };
}

function setStatus(state: State, args: Record<string, string>, way: "agent" | "assistant"): Answer {
  const channel = findChannel(state, args.channel_id);
  if (typeof channel === "string") return refuse(channel);
  if (args.thread_ts === undefined) return refuse("invalid_arguments");
  if (way === "agent" && !["active", "processing", "suspended", "closed"].includes(args.status ?? "")) return refuse("invalid_status");
  state.statuses.push({ channel: channel.id, thread: args.thread_ts, status: args.status ?? "", way });
  return { ok: true };
}
