// What the page can ask for, put together: each desk is somebody's work elsewhere, handed in (app/page-desks.ts); here each gets its
// routes. Loaded with the first request for any of them.
import type { Clock } from "../core/clock.ts";
import type { WebChats } from "../stores/web-chats.ts";
import type { WebMessages } from "../stores/web-messages.ts";
import type { PostTaker } from "./api.ts";
import type { Board, RunDetails } from "./board.ts";
import { createBoardRoutes, type Redeliver } from "./board-api.ts";
import type { BriefDesk } from "./briefs.ts";
import { createBriefsRoutes } from "./briefs-api.ts";
import type { ChatDesk } from "./chats.ts";
import { createChatsRoutes } from "./chats-api.ts";
import { createFilesRoutes, type FileDesk } from "./files-api.ts";
import type { Route } from "./http.ts";
import type { Live } from "./live.ts";
import { createPageRoutes } from "./page-files.ts";
import { createPeopleRoutes, type PairingDesk } from "./people-api.ts";
import type { QuestionDesk, QuestionViews } from "./questions.ts";
import { createQuestionsRoutes } from "./questions-api.ts";
import type { Renderer } from "./rendering.ts";
import { createRunRoutes } from "./run-api.ts";
import { createLogViews } from "./run-log.ts";
import type { RunRecord } from "./run-record.ts";
import type { RunLines } from "./runs.ts";
import { createRunsRoutes, type RunDesk } from "./runs-api.ts";
import type { SessionDesk } from "./sessions.ts";
import { createSessionsRoutes } from "./sessions-api.ts";
import type { SetupDesk } from "./setup.ts";
import { createSetupRoutes } from "./setup-api.ts";
import type { UsageDesk } from "./usage.ts";
import { createUsageRoutes } from "./usage-api.ts";

export interface PageDesks {
  webChats: Pick<WebChats, "search">;
  chats: ChatDesk;
  board: Board;
  details: RunDetails;
  record: RunRecord;
  usage: UsageDesk;
  questions: QuestionDesk;
  briefs: BriefDesk;
  /** Left out where the process has no files to change. */
  setup?: SetupDesk;
  files: FileDesk;
  redeliver: Redeliver;
  lines: RunLines;
  runDesk: RunDesk;
  sessions: SessionDesk;
}

interface Shown {
  readonly channel: PostTaker;
  readonly messages: WebMessages;
  readonly pairing: PairingDesk;
  readonly questionViews: QuestionViews;
  readonly renderer: Renderer;
  readonly live: Live;
  readonly clock: Clock;
  redact(text: string): string;
}

/** All but posting, the stream, probes and signing in. */
export function createOwnRoutes(desks: PageDesks, shown: Shown): Route[] {
  const { channel, messages, questionViews, renderer, live, clock, redact } = shown;
  const { details, questions } = desks;
  const logs = createLogViews(redact, renderer);
  return [
    ...createChatsRoutes({ chats: desks.chats, messages, webChats: desks.webChats, isChat: channel.isChat, now: clock.now }),
    ...createFilesRoutes({ files: desks.files, isChat: channel.isChat }),
    ...createBoardRoutes({ details, questions, questionViews, renderer, logs, redact, redeliver: desks.redeliver }),
    ...createRunsRoutes({ lines: desks.lines, desk: desks.runDesk, clock }),
    ...createRunRoutes({ record: desks.record, logs, live }),
    ...createSessionsRoutes({ sessions: desks.sessions, logs }),
    ...createUsageRoutes(desks.usage),
    ...createBriefsRoutes(desks.briefs),
    ...createQuestionsRoutes({ questions, views: questionViews }),
    ...createPeopleRoutes(shown.pairing),
    ...(desks.setup === undefined ? [] : createSetupRoutes(desks.setup)),
    ...createPageRoutes(),
  ];
}
