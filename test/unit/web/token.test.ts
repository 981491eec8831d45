import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { dropLink, isSame, keepLink, loadToken, signInUrl, tokenMark } from "../../../src/web/token.ts";

let dir: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-token-"));
});

afterEach(() => {
  rmSync(dir, { recursive: true, force: true });
});

it("[SC3] makes 256 bits at first start, for the owner only, and keeps them", () => {
  const token = loadToken(dir);
  expect(Buffer.from(token, "base64url")).toHaveLength(32);
  expect(statSync(join(dir, "web-token")).mode & 0o777).toBe(0o600);
  expect(readdirSync(dir)).toEqual(["web-token"]);
  expect(loadToken(dir)).toBe(token);
});

it("[RN6] takes a loose file mode back", () => {
  loadToken(dir);
  chmodSync(join(dir, "web-token"), 0o644);
  loadToken(dir);
  expect(statSync(join(dir, "web-token")).mode & 0o777).toBe(0o600);
});

it.each(["", "short", "x".repeat(44), `${"a".repeat(42)}!`])("[RC4] a damaged file (%j) is reported, not replaced", (text) => {
  writeFileSync(join(dir, "web-token"), text);
  expect(() => loadToken(dir)).toThrow(/web-token/);
  expect(readFileSync(join(dir, "web-token"), "utf8")).toBe(text);
});

it("[SC3] a folder that can't be written gives one clear error", () => {
  expect(() => loadToken(join(dir, "missing"))).toThrow(/can't be kept in .*web-token/);
});

it("[SC3] its mark is not the token, and the link keeps it behind the #", () => {
  const token = loadToken(dir);
  expect(tokenMark(token)).not.toContain(token);
  expect(tokenMark(token)).toBe(tokenMark(token));
  const url = new URL(signInUrl("http://127.0.0.1:8787", token));
  expect(url.search).toBe("");
  expect(url.hash).toBe(`#token=${token}`);
});

it("[SC3] compares whole values", () => {
  expect(isSame("abc", "abc")).toBe(true);
  expect(isSame("abc", "ab")).toBe(false);
  expect(isSame("", "abc")).toBe(false);
});

it("[WB8] the link stands in a file for its owner only, the last one counts, and it goes with the gateway", () => {
  const path = keepLink(dir, "http://127.0.0.1:1/#token=a");
  chmodSync(path, 0o644);
  expect(keepLink(dir, "http://127.0.0.1:1/#token=b")).toBe(path);
  expect([readFileSync(path, "utf8"), statSync(path).mode & 0o777]).toEqual(["http://127.0.0.1:1/#token=b\n", 0o600]);
  expect(readdirSync(dir)).toEqual(["sign-in-link"]);
  dropLink(dir);
  expect(readdirSync(dir)).toEqual([]);
});
