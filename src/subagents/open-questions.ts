// What was asked by somebody who is over. Closed in the transaction that ends the asker: from its commit on no answer can be taken for
// one that is still read. Whoever ends a run or a main session's turn → here → stores
import { liveId } from "../core/question.ts";
import type { Tx } from "../stores/database.ts";
import { type LiveMessages, liveDelivery } from "../stores/live-messages.ts";
import type { Outbox } from "../stores/outbox.ts";
import type { AskedBy, Questions } from "../stores/questions.ts";

export interface OpenQuestionDeps {
  readonly questions: Pick<Questions, "voidAll">;
  readonly outbox: Pick<Outbox, "withdraw">;
  readonly live: Pick<LiveMessages, "lose">;
}

/** Their messages say so from then on. One that nobody has been shown yet never is: it would come after the answer to the stop (DL6). */
export async function closeQuestions({ questions, outbox, live }: OpenQuestionDeps, tx: Tx, askedBy: AskedBy): Promise<void> {
  for (const id of await questions.voidAll(tx, askedBy)) {
    const delivery = liveDelivery(liveId({ id }));
    if (await outbox.withdraw(tx, delivery)) await live.lose(tx, delivery);
  }
}
