// Depth, children and allowed agents: who may spawn what, and the words of a refusal.
import { describe, expect, it } from "vitest";
import type { Agent } from "../../../src/agents/agent.ts";
import { admit, allowedAgents, type SpawnAttempt } from "../../../src/subagents/limits.ts";
import { makeAgent } from "../../support/delegation.ts";

const agent = (subagents: Partial<Agent["subagents"]> = {}): Agent =>
  makeAgent("main", "/nonexistent", { maxSpawnDepth: 1, maxChildren: 5, ...subagents });
const KNOWN = ["main", "scout", "hidden"];
const attempt = (changes: Partial<SpawnAttempt> = {}): SpawnAttempt => ({
  requester: agent(),
  requesterDepth: 0,
  unfinishedChildren: 0,
  agentId: undefined,
  knownAgents: KNOWN,
  ...changes,
});

describe("admit", () => {
  it("[SP5] a main session may spawn, a sub-agent not, and with maxSpawnDepth down to that depth", () => {
    expect(admit(attempt())).toEqual({ ok: true, agentId: "main" });
    expect(admit(attempt({ requesterDepth: 1 }))).toMatchObject({
      ok: false,
      status: "forbidden",
      error: expect.stringContaining("maximum delegation depth is 1"),
    });
    for (const maxSpawnDepth of [2, 3, 5]) {
      const requester = agent({ maxSpawnDepth });
      for (let depth = 0; depth <= 5; depth++) expect(admit(attempt({ requester, requesterDepth: depth })).ok).toBe(depth < maxSpawnDepth);
    }
  });

  it("[SP5] a requester whose run is not on record any more is at no depth that may spawn", () => {
    expect(admit(attempt({ requester: agent({ maxSpawnDepth: 5 }), requesterDepth: Number.POSITIVE_INFINITY })).ok).toBe(false);
  });

  it("[SP4] takes exactly the ids that agents_list shows, and names them when it refuses", () => {
    for (const allowAgents of [[], ["scout"], ["*"], ["scout", "hidden"], ["gone"]]) {
      const requester = agent({ allowAgents });
      const listed = allowedAgents(requester, KNOWN);
      for (const agentId of [...KNOWN, "gone", "", "MAIN", "__proto__", "../main"]) {
        const admission = admit(attempt({ requester, agentId }));
        expect(admission.ok).toBe(listed.includes(agentId));
        if (!admission.ok)
          expect(admission).toMatchObject({ status: "forbidden", error: expect.stringContaining(`Allowed: ${listed.join(", ")}`) });
      }
    }
    expect(allowedAgents(agent(), KNOWN)).toEqual(["main"]);
    expect(allowedAgents(agent({ allowAgents: ["*"] }), KNOWN)).toEqual(KNOWN);
  });

  it("[SP6] refuses at the cap, naming it and how to free a place", () => {
    expect(admit(attempt({ unfinishedChildren: 4 })).ok).toBe(true);
    const refused = admit(attempt({ unfinishedChildren: 5 }));
    expect(refused).toMatchObject({ ok: false, status: "forbidden" });
    expect(JSON.stringify(refused)).toMatch(/maxChildrenPerSession 5.*\/subagents stop/);
  });
});
