// Which IP addresses are the public internet. guarded-fetch.ts asks before it connects, for each DNS answer, and
// again for the address a socket really reached. Unknown or odd forms count as not public.
import { BlockList, isIPv4, isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";

const BLOCKED_V4: readonly (readonly [string, number])[] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10], // carrier NAT; some clouds keep their metadata service here
  ["127.0.0.0", 8],
  ["168.63.129.16", 32], // Azure's host service: a public-looking address that only the host answers
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.31.196.0", 24],
  ["192.52.193.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["192.175.48.0", 24],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
];

/** Inside 2000::/3, yet not plain public hosts: Teredo and other protocol ranges, documentation, 6to4. */
const BLOCKED_V6: readonly (readonly [string, number])[] = [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["2620:4f:8000::", 48],
  ["3fff::", 20],
];

const blockedV4 = subnets(BLOCKED_V4, "ipv4");
const blockedV6 = subnets(BLOCKED_V6, "ipv6");
/** Everything else (::/96, NAT64, unique local, link-local, multicast) lies outside. */
const globalV6 = subnets([["2000::", 3]], "ipv6");
const mappedV6 = subnets([["::ffff:0:0", 96]], "ipv6");

function subnets(ranges: readonly (readonly [string, number])[], family: "ipv4" | "ipv6"): BlockList {
  const list = new BlockList();
  for (const [network, prefix] of ranges) list.addSubnet(network, prefix, family);
  return list;
}

/** Is this literal address (no brackets, no zone) a host on the public internet? */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !blockedV4.check(address, "ipv4");
  if (!isIPv6(address) || address.includes("%")) return false;
  if (mappedV6.check(address, "ipv6")) return isPublicAddress(unmap(address));
  return globalV6.check(address, "ipv6") && !blockedV6.check(address, "ipv6");
}

/** `::ffff:7f00:1` → `127.0.0.1`; the URL parser brings every spelling into this form. */
function unmap(address: string): string {
  const canonical = new URL(`http://[${address}]/`).hostname.slice(1, -1);
  const [high = "", low = ""] = canonical.split(":").slice(-2);
  const bits = [Number.parseInt(high, 16), Number.parseInt(low, 16)];
  return bits.flatMap((group) => [group >> 8, group & 0xff]).join(".");
}

/** Is this literal address one of this machine's own? Asked anew each time: addresses come and go. */
export function isOwnAddress(address: string, interfaces = networkInterfaces()): boolean {
  const own = new BlockList();
  for (const { address: one } of Object.values(interfaces).flatMap((entries) => entries ?? [])) own.addAddress(one, familyOf(one));
  if (!isIPv4(address) && !isIPv6(address)) return false;
  return own.check(address, familyOf(address));
}

const familyOf = (address: string): "ipv4" | "ipv6" => (isIPv4(address) ? "ipv4" : "ipv6");
