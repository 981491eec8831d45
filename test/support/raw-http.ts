// HTTP as bytes, for requests that no client would send: what a server answers to exactly these, until it hangs up.
import { connect, type Socket } from "node:net";

const DEADLINE_MS = 15_000;

/** Resolves with everything the server said once it hangs up, or once that `isEnough`. */
export function sendBytes(port: number, bytes: string, isEnough: (answer: string) => boolean = () => false): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket: Socket = connect(port, "127.0.0.1", () => socket.write(bytes));
    let answer = "";
    const timer = setTimeout(() => socket.destroy(), DEADLINE_MS);
    socket.on("data", (chunk) => {
      answer += chunk;
      if (isEnough(answer)) socket.destroy();
    });
    // A reset after the answer is still an answer.
    socket.on("error", (error: NodeJS.ErrnoException) =>
      error.code === "ECONNRESET" || error.code === "EPIPE" ? undefined : reject(error),
    );
    socket.on("close", () => {
      clearTimeout(timer);
      resolve(answer);
    });
  });
}

/** A request by its lines; the connection ends with the answer. */
export const requestBytes = (line: string, headers: readonly string[], body = ""): string =>
  `${[line, ...headers, "Connection: close", "", ""].join("\r\n")}${body}`;

export const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]);
