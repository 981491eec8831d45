// Who waits to be let in, who was let in or refused, and the operator's word about each (SC1). What is decided here the person
// is told by the gateway, whoever decided.
import { z } from "zod";
import { safeParse } from "../core/safe-parse.ts";
import type { PairingRequest, Person, Sender } from "../stores/pairing.ts";
import { json, problem, type Route, type WebRequest } from "./http.ts";

export interface PairingDesk {
  listPending(): Promise<readonly PairingRequest[]>;
  listPeople(): Promise<readonly Person[]>;
  /** Null when no such code waits (any more). */
  approve(code: string): Promise<PairingRequest | null>;
  refuse(code: string): Promise<PairingRequest | null>;
  /** False: nothing was decided about them. */
  revoke(sender: Sender): Promise<boolean>;
}

/** Without the chat they wrote from: the page has no use for it. */
type WaitingView = Omit<PairingRequest, "address" | "account" | "createdAt">;
type PersonView = Omit<Person, "address">;

export interface PeopleView {
  readonly waiting: readonly WaitingView[];
  readonly people: readonly PersonView[];
}

const Decision = z.object({ code: z.string().min(1).max(40), decision: z.enum(["approve", "refuse"]).default("approve") });
const Revocation = z.object({ channel: z.string().max(100), account: z.string().max(200), senderId: z.string().max(200) });

export function createPeopleRoutes(desk: PairingDesk): Route[] {
  return [
    { method: "GET", path: "/api/pairing", access: "token", handle: async () => json(200, await peopleView(desk)) },
    { method: "POST", path: "/api/pairing", access: "token", handle: (request) => decide(request, desk) },
    { method: "POST", path: "/api/pairing/revoke", access: "token", handle: (request) => revoke(request, desk) },
  ];
}

export const peopleView = async (desk: Pick<PairingDesk, "listPending" | "listPeople">): Promise<PeopleView> => ({
  waiting: (await desk.listPending()).map(toWaiting),
  people: (await desk.listPeople()).map(({ address: _chat, ...person }) => person),
});

const toWaiting = ({ code, channel, senderId, senderName, expiresAt }: PairingRequest): WaitingView => ({
  code,
  channel,
  senderId,
  senderName,
  expiresAt,
});

async function decide(request: WebRequest, desk: PairingDesk) {
  const body = safeParse(Decision, await request.json());
  if (!body.success) return problem(400, 'Send {"code": "…", "decision": "approve" or "refuse"}.');
  const { code, decision } = body.data;
  const person = decision === "approve" ? await desk.approve(code) : await desk.refuse(code);
  if (person === null) return problem(404, "This code is not waiting any more. Codes live for one hour.");
  return json(200, { [decision === "approve" ? "approved" : "refused"]: toWaiting(person) });
}

async function revoke(request: WebRequest, desk: PairingDesk) {
  const body = safeParse(Revocation, await request.json());
  if (!body.success) return problem(400, 'Send {"channel": "…", "account": "…", "senderId": "…"}.');
  return (await desk.revoke(body.data))
    ? json(200, { revoked: body.data })
    : problem(404, "Nothing is decided about this person any more.");
}
