// Putting a question: its row, its message in the outbox and the live row under which the message is edited later, in one
// transaction. Asked again by a call that is made again, it finds the row. ask-tool.ts, approvals.ts → here → stores
import { type Address, channelIsOff } from "../core/address.ts";
import type { Clock } from "../core/clock.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Channel } from "../core/message.ts";
import { programOf } from "../core/program.ts";
import { liveId, type Question, type QuestionKind } from "../core/question.ts";
import type { Run, Wait } from "../core/run.ts";
import type { ToolContext } from "../core/tool.ts";
import type { Database, Tx } from "../stores/database.ts";
import { type LiveMessages, liveDelivery, shownDigest } from "../stores/live-messages.ts";
import { lock } from "../stores/lock-keys.ts";
import type { Outbox } from "../stores/outbox.ts";
import type { Questions } from "../stores/questions.ts";
import { type Asker, type AskerDeps, isAskerThere, isSilent } from "./asker.ts";
import { questionParts } from "./question-message.ts";

export interface AskingDeps extends AskerDeps {
  readonly db: Database;
  readonly questions: Questions;
  readonly live: LiveMessages;
  readonly outbox: Outbox;
  readonly clock: Clock;
  readonly failpoint: HitFailpoint;
  channel(name: string, account: string): Channel | null;
  /** May the program with this token answer what its runs ask (PR1)? */
  mayAnswer(tokenId: string): Promise<boolean>;
  /** As people know the agent. */
  agentName(agentId: string): string;
}

/** What is asked, in words and choices; who asks and where follows from the call. */
export interface Wanted {
  readonly kind: QuestionKind;
  readonly text: string;
  readonly options: readonly string[];
  readonly tool: string | null;
  readonly digest: string | null;
  /** How long it stays open, from when it is asked: a call that lost its process before may have been made days ago. */
  readonly forMs: number;
}

type Calling = Pick<ToolContext, "runId" | "turnId" | "sessionKey">;

export interface Asking {
  /** The question of this call as it is now, settled where its time is over; null: it has not been asked. */
  find(context: ToolContext): Promise<Question | null>;
  /** Asks, unless this call has. `refused`: there is nobody to ask, and why. */
  put(context: ToolContext, wanted: Wanted): Promise<Question | { readonly refused: string }>;
  /** Why nobody can be asked from here; null: somebody can. */
  whyNobody(context: ToolContext): Promise<string | null>;
  /** Who this call would ask as, and below which chat. */
  askerOf(context: Calling): Promise<Asker & Pick<Question, "rootKey">>;
  /** What the call waits for while the question is open. */
  waitFor(question: Question): Wait;
}

/** By its place in the transcript, whoever makes it: a call that is made again is the same question. */
const callKeyOf = ({ sessionId, callId }: Pick<ToolContext, "sessionId" | "callId">): string => `${sessionId}:${callId}`;

export function createAsking(deps: AskingDeps): Asking {
  return {
    async find(context) {
      const known = await deps.questions.findByCall(callKeyOf(context));
      return known === null ? null : await asItIs(deps, known);
    },
    async put(context, { forMs, ...wanted }) {
      const run = await runOf(deps, context);
      const { address } = context;
      const refused = await whyNobody(deps, context, run);
      if (refused !== null || address === null) return { refused: refused ?? NO_CHAT };
      const asker = askerOf(context, run);
      deps.failpoint("question.before-put");
      const question = await deps.db.transaction([lock.tree(asker.rootKey), lock.chat(address)], async (tx) => {
        // Stopped a moment ago: the stop has closed what was open, and would never see this one.
        if (!(await isAskerThere(deps, asker))) return null;
        const { question, isNew } = await deps.questions.put(tx, {
          ...wanted,
          ...asker,
          expiresAt: deps.clock.now() + forMs,
          callKey: callKeyOf(context),
          sessionId: context.sessionId,
          address,
          asker: run?.label ?? deps.agentName(context.agentId),
        });
        if (isNew) await post(deps, tx, question, address);
        return question;
      });
      if (question === null) return { refused: ENDED };
      deps.failpoint("question.put");
      return question;
    },
    whyNobody: async (context) => whyNobody(deps, context, await runOf(deps, context)),
    askerOf: async (context) => askerOf(context, await runOf(deps, context)),
    waitFor: ({ id, createdAt, expiresAt }) => ({ for: "answer", id, since: createdAt, until: expiresAt }),
  };
}

const NO_CHAT = "There is no chat in which somebody could be asked.";
const NO_ANSWERS =
  "Nobody can be asked: a program asked for this run, and its token is bound to no chat and may not answer either (scope approve).";
const ENDED = "What asks has ended; nobody is asked any more.";

const runOf = async ({ runs }: AskingDeps, { runId }: Calling): Promise<Run | null> => (runId === null ? null : await runs.get(runId));

const askerOf = ({ runId, turnId, sessionKey }: Calling, run: Run | null): Asker & Pick<Question, "rootKey"> => ({
  ...{ runId, turnId, generation: run?.generation ?? 1 },
  rootKey: run?.rootKey ?? sessionKey,
});

/** QA5: what can't reach anybody fails closed, at once, instead of waiting a day for nobody. */
async function whyNobody(deps: AskingDeps, { address, signal }: ToolContext, run: Run | null): Promise<string | null> {
  if (address === null) return NO_CHAT;
  if (signal.aborted) return ENDED;
  const program = programOf(address);
  if (program !== null) return (await deps.mayAnswer(program)) ? null : NO_ANSWERS;
  if (await isSilent(deps, run)) return "Nobody can be asked: this run works silently, and nothing of it is posted in a chat.";
  if (deps.channel(address.channel, address.account) === null) return `Nobody can be asked: ${channelIsOff(address.channel)}.`;
  return null;
}

async function post(deps: AskingDeps, tx: Tx, question: Question, address: Address): Promise<void> {
  const channel = deps.channel(address.channel, address.account);
  if (channel === null) return;
  const id = liveId(question);
  const parts = questionParts(channel, question);
  await deps.live.open(tx, id, address);
  await deps.live.markPosted(tx, id, shownDigest(parts));
  await deps.outbox.add(tx, { delivery: liveDelivery(id), address, parts });
}

/** Its time may have passed while nobody looked, days perhaps: the first look settles it (ASK-007). */
async function asItIs({ db, questions, clock }: AskingDeps, question: Question): Promise<Question> {
  if (question.state !== "open" || clock.now() < question.expiresAt) return question;
  await db.transaction([lock.tree(question.rootKey)], (tx) => questions.close(tx, question.id, "expired"));
  return (await questions.get(question.id)) ?? question;
}
