// Under which names the page may be called, and from which origins. A web page of anybody can make a browser call us by a
// name of its own that resolves to this machine (DNS rebinding); the Host header still says that name, so only those are
// served that nobody else can own: our own interface, loopback, an address in digits, and what the operator calls us.
import { isIP } from "node:net";

export interface Hosts {
  isServed(host: string): boolean;
  /** May a page of this origin call us by this host name? */
  isOwnOrigin(origin: string, host: string): boolean;
  /** This origin is reached over TLS, at a proxy before us. */
  isSecure(origin: string | undefined): boolean;
  /** What to say to a caller by another name. */
  refusal(host: string): string;
}

export interface HostOptions {
  /** The interface we listen on. */
  readonly host: string;
  port(): number;
  /** `web.publicUrl`: the address people open, when that is not ours; null when it is. */
  publicUrl(): string | null;
}

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];
const DEFAULT_PORTS: Readonly<Record<string, string>> = { "http:": "80", "https:": "443" };
const HOST_NAME = /^[a-z0-9.-]{1,253}(?::\d{1,5})?$/i;

/** As it stands in a URL. */
export const hostText = (host: string): string => (host.includes(":") ? `[${host}]` : host);
export const isWildcard = (host: string): boolean => host === "0.0.0.0" || host === "::";

export function createHosts(options: HostOptions): Hosts {
  const publicUrl = (): URL | null => URL.parse(options.publicUrl() ?? "");
  const isPublic = (host: string): boolean => {
    const url = publicUrl();
    // Some proxies write the port that browsers leave out.
    return url !== null && (host === url.host || host === `${url.hostname}:${url.port || DEFAULT_PORTS[url.protocol]}`);
  };
  // Open to the network, possibly behind a mapped port: an address in digits is no name that could be made to resolve to us.
  const isNumeric = (host: string): boolean => {
    const name = /^(.+?)(?::\d{1,5})?$/.exec(host)?.[1] ?? "";
    return name === "localhost" || isIP(name) === 4 || (/^\[.*\]$/.test(name) && isIP(name.slice(1, -1)) === 6);
  };
  const isLocal = (host: string): boolean =>
    ownHosts(options.host, options.port()).includes(host) || (isWildcard(options.host) && isNumeric(host));
  return {
    isServed: (host) => isLocal(host) || isPublic(host),
    isOwnOrigin: (origin, host) => origin === publicUrl()?.origin || (isLocal(host) && origin === `http://${host}`),
    isSecure: (origin) => origin?.startsWith("https://") === true && origin === publicUrl()?.origin,
    refusal(host) {
      // A tunnel to this machine has no TLS of its own; a name out there should.
      const example = HOST_NAME.test(host) ? `${isNumeric(host) ? "http" : "https"}://${host}` : "https://herald.example.com";
      return `The page is not served under this name. To reach it this way, set web.publicUrl to the address you open, for example "${example}".`;
    },
  };
}

/** Exactly these spellings; port 80 is left out by browsers. */
function ownHosts(host: string, port: number): string[] {
  return [hostText(host), ...LOOPBACK].flatMap((name) => (port === 80 ? [name, `${name}:80`] : [`${name}:${port}`]));
}
