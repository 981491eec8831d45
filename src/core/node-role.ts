// What a process among several does.
/** Page and channels, turns and runs, or both. */
export type NodeRole = "gateway" | "worker" | "all";

export const NODE_ROLES: readonly NodeRole[] = ["gateway", "worker", "all"];
