// Asking people, wired: who asks and where, which calls need a yes, and answering.
import type { Agents } from "../agents/agent.ts";
import type { Gate } from "../agents/gate.ts";
import type { PostingDeps } from "../attachments/posting.ts";
import { onFirstUse } from "../core/first-use.ts";
import { isTurnOpen as isMessageOpen } from "../gateway/main-turn.ts";
import { createApprovals } from "../questions/approvals.ts";
import { bootOfCall, isAskerThere, isSilent } from "../questions/asker.ts";
import { type Asking, createAsking } from "../questions/asking.ts";
import { createNeedsYes } from "../questions/needed.ts";
import { createReplies, type Replies } from "../questions/replies.ts";
import { lock } from "../stores/lock-keys.ts";
import type { Elicit } from "../tools/mcp-elicitation.ts";
import type { Base } from "./base.ts";
import type { Channels } from "./channels.ts";
import type { Stores } from "./store-parts.ts";

export interface QuestionParts {
  readonly asking: Asking;
  readonly gate: Gate;
  readonly needsYes: ReturnType<typeof createNeedsYes>;
  readonly replies: Replies;
  readonly elicit: Elicit;
  /** Who posts a file from a call, by the same measure as who asks. */
  readonly posterOf: PostingDeps["posterOf"];
  /** What calls asked that ended with their process means nothing any more. */
  closeLeft(): Promise<void>;
}

export interface QuestionPartsDeps extends Pick<Base, "clock" | "failpoint" | "bus" | "bootId"> {
  readonly stores: Stores;
  readonly agents: Agents;
  readonly channels: Channels;
}

export function createQuestionParts({ stores, agents, channels, clock, failpoint, bus, bootId }: QuestionPartsDeps): QuestionParts {
  const isTurnOpen = async (turnId: string): Promise<boolean> => {
    const boot = bootOfCall(turnId);
    if (boot !== null) return (await stores.nodes.alive()).has(boot);
    return isMessageOpen(stores, turnId);
  };
  const deps = { ...stores, clock, failpoint, isTurnOpen };
  const mayAnswer = async (tokenId: string): Promise<boolean> =>
    (await stores.programTokens.get(tokenId))?.scopes.includes("approve") === true;
  const asking = createAsking({ ...deps, channel: channels.find, mayAnswer, agentName: (id) => agents.find(id)?.name ?? id });
  const eliciting = onFirstUse(async () => (await import("../questions/elicitation.ts")).createElicit({ ...deps, asking, bus, bootId }));
  const needsYes = createNeedsYes({ agents, runs: stores.runs });
  return {
    asking,
    needsYes,
    gate: createApprovals({ ...deps, asking, needsYes }),
    replies: createReplies(deps),
    elicit: async (elicited, context) => (await eliciting())(elicited, context),
    async posterOf(sender) {
      const asker = await asking.askerOf(sender);
      const run = sender.runId === null ? null : await stores.runs.get(sender.runId);
      return { rootKey: asker.rootKey, isSilent: await isSilent(deps, run), isThere: () => isAskerThere(deps, asker) };
    },
    async closeLeft() {
      for (const { id, rootKey, turnId } of await stores.questions.listOfCalls())
        if (!(await isTurnOpen(turnId))) await stores.db.transaction([lock.tree(rootKey)], (tx) => stores.questions.close(tx, id, "void"));
    },
  };
}
