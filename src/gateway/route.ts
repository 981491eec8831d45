// Which agent and session an address belongs to. Pure: the same address always gives the same session, and direct
// messages of different people never share one.
import type { Address } from "../core/address.ts";
import { chatKey } from "../core/ids.ts";

export interface Route {
  readonly agentId: string;
  readonly sessionKey: string;
}

/** Null when the address makes no legal key: such an update is refused, never repaired. */
export function routeOf(address: Address, defaultAgentId: string): Route | null {
  try {
    return { agentId: defaultAgentId, sessionKey: chatKey(defaultAgentId, address) };
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}
