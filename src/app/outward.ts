// Everything that goes out to people, under one pace: messages of the outbox, messages that change, answers while they are written.
import { createAtOnce } from "../gateway/at-once.ts";
import type { AttemptDeps } from "../gateway/attempt.ts";
import { createDelivery, type Delivery, pacerOf } from "../gateway/delivery.ts";
import { createDrafting, type Drafting } from "../gateway/drafting.ts";
import { createPainter, type Painter } from "../gateway/painter.ts";
import { recordDelivery } from "../subagents/posting.ts";
import type { Base } from "./base.ts";
import type { Channels } from "./channels.ts";
import { createSketches } from "./sketches.ts";
import type { Stores } from "./store-parts.ts";

type Moved = Parameters<AttemptDeps["recordDelivery"]>;

export interface Outward {
  readonly delivery: Delivery;
  readonly painter: Painter;
  readonly drafting: Drafting;
}

export function createOutward(deps: Base & { readonly stores: Stores; readonly channels: Channels }): Outward {
  const { stores, channels, clock } = deps;
  const { installation } = stores;
  const shared = {
    ...{ ...deps, ...stores, channel: channels.find, pacer: pacerOf({ clock, channel: channels.find }) },
    ...(installation === null ? {} : { isValid: installation.members.isValid }),
  };
  const sending = { ...shared, recordDelivery: (...moved: Moved) => recordDelivery(stores, ...moved) };
  stores.onEnd?.(createAtOnce(sending));
  return {
    delivery: createDelivery(sending),
    painter: createPainter({ ...shared, ...createSketches(stores, clock) }),
    drafting: createDrafting(shared),
  };
}
