/** IPv6 addresses as numbers. */
import { isIP, isIPv6 } from "node:net";

const GROUPS = 8;
const NETWORK_GROUPS = 4;

/** The eight groups of an IPv6 address, without its zone; null: it is not one. */
export function ipv6Groups(address: string): number[] | null {
  const [bare = ""] = address.split("%");
  if (!isIPv6(bare)) return null;
  const [head = "", tail] = withoutDots(bare).split("::");
  const before = groupsIn(head);
  if (tail === undefined) return before;
  const after = groupsIn(tail);
  const zeros = Array.from({ length: GROUPS - before.length - after.length }, () => 0);
  return [...before, ...zeros, ...after];
}

/** What limits per client count by: an IPv4 address, or the /64 network of IPv6, because one customer has all of it. */
export function neighbourhood(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const groups = isIP(address) === 4 ? null : ipv6Groups(address);
  if (groups === null) return address;
  const network = groups.slice(0, NETWORK_GROUPS).map((group) => group.toString(16));
  return `${network.join(":")}::/64`;
}

/** The last two groups may be written as an IPv4 address. */
function withoutDots(address: string): string {
  return address.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_all, ...parts: string[]) => {
    const [a = 0, b = 0, c = 0, d = 0] = parts.slice(0, 4).map(Number);
    return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
  });
}

function groupsIn(text: string): number[] {
  return text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16));
}
