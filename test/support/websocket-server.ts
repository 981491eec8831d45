// The server side of one WebSocket (RFC 6455), as much as a fake platform needs: text, ping, close, and rude behaviour on
// demand (no pong, hang up without a word). Made by hand so that nothing has to be installed for it.
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";

export interface ServerSocket {
  send(text: string): void;
  /** Bytes as they are: half a frame, a wrong one. */
  raw(bytes: Buffer): void;
  ping(): void;
  /** Sends a close frame and waits for the other side's. */
  close(code?: number): void;
  /** Hangs up without a word. */
  destroy(): void;
  /** From now on nothing is answered, neither pings nor close frames. */
  mute(): void;
  readonly isOpen: boolean;
}

export interface SocketHandlers {
  text(text: string): void;
  /** Once, however it ended. */
  closed(): void;
}

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const TEXT = 1;
const CLOSE = 8;
const PING = 9;
const PONG = 10;

interface State {
  readonly stream: Duplex;
  readonly handlers: SocketHandlers;
  buffer: Buffer;
  /** Pieces of a message that came in several frames. */
  pieces: Buffer[];
  open: boolean;
  muted: boolean;
}

/** Answers an upgrade request; call it from the HTTP server's "upgrade" event. */
export function acceptWebSocket(request: IncomingMessage, stream: Duplex, handlers: SocketHandlers): ServerSocket {
  const key = request.headers["sec-websocket-key"] ?? "";
  const accept = createHash("sha1").update(`${key}${GUID}`).digest("base64");
  stream.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
  const state: State = { stream, handlers, buffer: Buffer.alloc(0), pieces: [], open: true, muted: false };
  const ended = (): void => {
    if (!state.open) return;
    state.open = false;
    stream.destroy();
    handlers.closed();
  };
  stream.on("data", (chunk: Buffer) => {
    state.buffer = Buffer.concat([state.buffer, chunk]);
    while (state.open && readFrame(state, ended));
  });
  stream.on("error", ended);
  stream.on("end", ended);
  stream.on("close", ended);
  return {
    send: (text) => write(state, TEXT, Buffer.from(text)),
    raw: (bytes) => void (state.open && stream.writable && stream.write(bytes)),
    ping: () => write(state, PING, Buffer.from("ping")),
    close: (code = 1000) => write(state, CLOSE, closeBody(code)),
    destroy: ended,
    mute() {
      state.muted = true;
    },
    get isOpen() {
      return state.open;
    },
  };
}

function closeBody(code: number): Buffer {
  const body = Buffer.alloc(2);
  body.writeUInt16BE(code);
  return body;
}

function write({ stream, open }: State, opcode: number, body: Buffer): void {
  if (!open || !stream.writable) return;
  const head = body.length < 126 ? Buffer.alloc(2) : body.length < 65_536 ? Buffer.alloc(4) : Buffer.alloc(10);
  head[0] = 0x80 | opcode;
  head[1] = body.length < 126 ? body.length : body.length < 65_536 ? 126 : 127;
  if (head.length === 4) head.writeUInt16BE(body.length, 2);
  if (head.length === 10) head.writeBigUInt64BE(BigInt(body.length), 2);
  stream.write(Buffer.concat([head, body]));
}

/** Takes one frame off the buffer; false when it isn't complete yet. */
function readFrame(state: State, ended: () => void): boolean {
  const { buffer } = state;
  if (buffer.length < 2) return false;
  const short = buffer[1]! & 0x7f;
  const lengthBytes = short === 126 ? 2 : short === 127 ? 8 : 0;
  const masked = (buffer[1]! & 0x80) !== 0;
  const headLength = 2 + lengthBytes + (masked ? 4 : 0);
  if (buffer.length < headLength) return false;
  const length = lengthBytes === 2 ? buffer.readUInt16BE(2) : lengthBytes === 8 ? Number(buffer.readBigUInt64BE(2)) : short;
  if (buffer.length < headLength + length) return false;
  const body = Buffer.from(buffer.subarray(headLength, headLength + length));
  if (masked) for (let n = 0; n < length; n++) body[n] = body[n]! ^ buffer[headLength - 4 + (n % 4)]!;
  state.buffer = buffer.subarray(headLength + length);
  handleFrame(state, { opcode: buffer[0]! & 0x0f, final: (buffer[0]! & 0x80) !== 0, body }, ended);
  return true;
}

function handleFrame(state: State, frame: { opcode: number; final: boolean; body: Buffer }, ended: () => void): void {
  if (state.muted) return;
  if (frame.opcode === PING) return write(state, PONG, frame.body);
  if (frame.opcode === PONG) return;
  if (frame.opcode === CLOSE) {
    write(state, CLOSE, frame.body.subarray(0, 2));
    return ended();
  }
  state.pieces.push(frame.body);
  if (!frame.final) return;
  const text = Buffer.concat(state.pieces).toString("utf8");
  state.pieces = [];
  state.handlers.text(text);
}
