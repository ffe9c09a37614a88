/**
 * Which addresses belong to everybody, and which to this machine or its surroundings.
 *
 * A request that somebody else may aim must not reach what stands behind the same wall as we do: a database, the service of a
 * cloud that hands out credentials. So an address counts as public only if it is known to be. Addresses of IPv6 that carry one
 * of IPv4 are judged by that.
 */
import { BlockList, isIP } from "node:net";
import { ipv6Groups } from "../core/ip.ts";

/** Of IPv4, all but these are public. */
const NOT_PUBLIC: readonly (readonly [net: string, bits: number])[] = [
  ["0.0.0.0", 8], // this host
  ["10.0.0.0", 8],
  ["100.64.0.0", 10], // carriers' own; clouds have metadata here
  ["127.0.0.0", 8],
  ["168.63.129.16", 32], // a cloud's own service, on an address that looks public
  ["169.254.0.0", 16], // link-local; metadata of most clouds
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24], // documentation
  ["192.31.196.0", 24], // AS112, which answers for names of private networks
  ["192.52.193.0", 24], // relays of multicast (AMT)
  ["192.88.99.0", 24], // relays to 6to4
  ["192.168.0.0", 16],
  ["192.175.48.0", 24], // AS112
  ["198.18.0.0", 15], // benchmarks
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4], // multicast
  ["240.0.0.0", 4], // reserved, and broadcast
];

/** Of IPv6, these may be public … */
const GLOBAL = "2000::";
const GLOBAL_BITS = 3;

/** … but for these. */
const NOT_PUBLIC_6: readonly (readonly [net: string, bits: number])[] = [
  ["2001::", 23], // protocols, among them Teredo, which carries an address of IPv4 in disguise
  ["2001:db8::", 32], // documentation
  ["2002::", 16], // 6to4: carries one, too
  ["2620:4f:8000::", 48], // AS112
  ["3fff::", 20], // documentation
];

/** What an address of IPv4 looks like as one of IPv6: mapped, and through NAT64. */
const CARRIERS = ["::ffff:", "64:ff9b::"];
const CARRIER_BITS = 96;

const ISATAP = 0x5efe;
/** The bit of an interface's number that says whether it is unique in the world; ISATAP sets it or not. */
const UNIVERSAL = 0x200;

const refused = new BlockList();
const possible = new BlockList();

possible.addSubnet(GLOBAL, GLOBAL_BITS, "ipv6");
for (const [net, bits] of NOT_PUBLIC_6) refused.addSubnet(net, bits, "ipv6");
for (const [net, bits] of NOT_PUBLIC) refused.addSubnet(net, bits, "ipv4");
for (const carrier of CARRIERS) {
  possible.addSubnet(`${carrier}0.0.0.0`, CARRIER_BITS, "ipv6");
  for (const [net, bits] of NOT_PUBLIC) {
    refused.addSubnet(`${carrier}${net}`, CARRIER_BITS + bits, "ipv6");
  }
}

/** Whether an address, as a resolver gives it, is public. What is no address is not. */
export function isPublic(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !refused.check(address, "ipv4");
  // One with a zone means a network of this machine.
  if (family === 0 || address.includes("%")) return false;
  return (
    possible.check(address, "ipv6") && !refused.check(address, "ipv6") && !isTunnelled(address)
  );
}

/** ISATAP: in any network, the lower half is 0:5efe or 200:5efe and an address of IPv4. */
function isTunnelled(address: string): boolean {
  const [, , , , first = 0, second] = ipv6Groups(address) ?? [];
  return second === ISATAP && (first | UNIVERSAL) === UNIVERSAL;
}
