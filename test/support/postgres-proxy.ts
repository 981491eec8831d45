// A way to PostgreSQL that a test can break: connections that are cut, or that swallow everything without a word as a firewall does;
// notifications that get lost; answers that never come, or come as an error the server would give. It reads both directions message by
// message (PostgreSQL's protocol 3.0, without TLS).
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface Message {
  /** One letter, as the protocol has them; empty: the first message of a connection, which has none. */
  readonly type: string;
  readonly bytes: Buffer;
  /** Everything in it, for a look at a statement. */
  readonly text: string;
}

export type Verdict = "pass" | "drop" | "cut" | { readonly code: string; readonly message: string };

export interface Line {
  /** It has said LISTEN. */
  readonly isListening: boolean;
  readonly isSilent: boolean;
  cut(): void;
  /** From now on nothing comes through, either way, and nobody is told. */
  blackHole(): void;
}

export interface PostgresProxy extends AsyncDisposable {
  /** The same address, by this way. */
  through(url: string): string;
  lines(): readonly Line[];
  /** New connections are not answered: packets dropped. */
  isDeaf: boolean;
  /** What becomes of a message to the server; an error is the answer to it, and the server never hears of it. */
  toServer(message: Message, line: Line): Verdict;
  toClient(message: Message, line: Line): Verdict;
  /** New connections since it began. */
  readonly opened: number;
}

export async function createProxy(serverUrl: string): Promise<PostgresProxy> {
  const lines = new Set<Line>();
  const target = new URL(serverUrl);
  const sockets = new Set<Socket>();
  let opened = 0;
  const server = createServer({ allowHalfOpen: false }, (client) => {
    opened++;
    sockets.add(client);
    client.on("error", () => {});
    client.once("close", () => sockets.delete(client));
    if (!proxy.isDeaf) join(proxy, lines, client, connect(Number(target.port), target.hostname), sockets);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const proxy: PostgresProxy = {
    through(url) {
      const other = new URL(url);
      other.port = String(port);
      return other.href;
    },
    lines: () => [...lines],
    isDeaf: false,
    toServer: () => "pass",
    toClient: () => "pass",
    get opened() {
      return opened;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
  return proxy;
}

function join(proxy: PostgresProxy, lines: Set<Line>, client: Socket, server: Socket, sockets: Set<Socket>): void {
  let isListening = false;
  let isSilent = false;
  let refused: Exclude<Verdict, string> | null = null;
  sockets.add(server);
  const end = (): void => {
    client.destroy();
    server.destroy();
    sockets.delete(server);
    lines.delete(line);
  };
  const line: Line = {
    get isListening() {
      return isListening;
    },
    get isSilent() {
      return isSilent;
    },
    cut: end,
    blackHole() {
      isSilent = true;
    },
  };
  lines.add(line);
  const isQuiet = (): boolean => isSilent;
  const toServer = split(false, (message) => {
    if (isQuiet()) return;
    if (/LISTEN /.test(message.text)) isListening = true;
    // A statement may come in several messages: the server answers with the error, and hears nothing more until the last of them.
    const verdict = refused ?? proxy.toServer(message, line);
    if (verdict === "cut") return end();
    if (verdict === "pass") return void server.write(message.bytes);
    if (verdict === "drop") return;
    const isLast = "QS".includes(message.type);
    refused = isLast ? null : verdict;
    if (isLast) client.write(errorAnswer(verdict));
  });
  const toClient = split(true, (message) => {
    if (isQuiet()) return;
    const verdict = proxy.toClient(message, line);
    if (verdict === "cut") return end();
    if (verdict === "pass") client.write(message.bytes);
  });
  client.on("data", toServer);
  server.on("data", toClient);
  server.on("error", () => {});
  // Message by message, each at once: else every question would wait for the acknowledgement of the piece before.
  for (const socket of [client, server]) socket.setNoDelay(true);
  // A black hole passes on no end either.
  for (const socket of [client, server]) socket.once("close", () => isQuiet() || end());
}

function split(isTyped: boolean, take: (message: Message) => void): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0);
  let hasType = isTyped;
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      const head = hasType ? 5 : 4;
      if (rest.length < head) return;
      const length = rest.readInt32BE(head - 4) + head - 4;
      if (rest.length < length) return;
      const bytes = rest.subarray(0, length);
      rest = rest.subarray(length);
      take({ type: hasType ? String.fromCharCode(bytes[0] ?? 0) : "", bytes, text: bytes.toString("latin1") });
      hasType = true;
    }
  };
}

function errorAnswer({ code, message }: { code: string; message: string }): Buffer {
  const fields = Buffer.from(`SERROR\0VERROR\0C${code}\0M${message}\0\0`);
  const error = Buffer.alloc(5);
  error.write("E");
  error.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([error, fields, Buffer.from([0x5a, 0, 0, 0, 5, 0x49])]);
}
