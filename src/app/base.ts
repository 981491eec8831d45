// What most parts of this folder are wired with: app.ts makes it once, each part picks the few things it takes.
import type { Config } from "../config/schema.ts";
import type { Clock } from "../core/clock.ts";
import type { Bus } from "../core/events.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import type { Logger } from "../core/logger.ts";
import type { Secrets } from "../core/secrets.ts";
import type { Lane } from "../lanes/lanes.ts";

export interface Base {
  readonly clock: Clock;
  readonly log: Logger;
  readonly bus: Bus;
  readonly secrets: Secrets;
  readonly failpoint: HitFailpoint;
  /** Of this start: tells runs of earlier ones apart. */
  readonly bootId: string;
  readonly stateDir: string;
  /** The memory all agents share. */
  readonly crewPath: string;
  /** As it is now. */
  config(): Config;
}

export interface Lanes {
  readonly main: Lane;
  readonly subagent: Lane;
}
