// Slash commands and presses: the app has three seconds to say that it took one, and a quarter of an hour to answer it.
import { dispatch, newToken } from "./fake-discord-gateway.ts";
import { buttonsOf, checkMessage, type MessageBody, type Refusal, refuse } from "./fake-discord-rules.ts";
import { channelJson, channelOf, type FakeInteraction, nextId, type SeenMessage, type State, toJson, wake } from "./fake-discord-state.ts";

const TOKEN_MS = 15 * 60_000;
const EPHEMERAL = 64;
const UNKNOWN = refuse(404, 10_062, "Unknown interaction");
const NO_WEBHOOK = refuse(404, 10_015, "Unknown Webhook");
const DONE = { status: 204, body: {} };

export interface Interacted {
  channel: string;
  user: string;
  /** A slash command. */
  command?: { name: string; words?: string };
  /** A press on this message. */
  press?: { message: SeenMessage; customId: string };
}

/** Resolves with whether the app said in time that it took it. */
export function interact(state: State, { channel: id, user, command, press }: Interacted): Promise<boolean> {
  const channel = channelOf(state, id);
  return new Promise((resolve) => {
    const interaction: FakeInteraction = {
      id: nextId(state),
      token: newToken(state),
      type: press === undefined ? 2 : 3,
      channel: id,
      user,
      at: state.now(),
      ack: null,
      isEphemeral: false,
      original: null,
      message: press?.message ?? null,
      settled: resolve,
    };
    state.interactions.set(interaction.token, interaction);
    const options = command?.words === undefined ? [] : [{ type: 3, name: "words", value: command.words }];
    const who = { id: user, username: "person", global_name: "Person" };
    dispatch(state, "INTERACTION_CREATE", {
      ...{ id: interaction.id, application_id: state.appId, type: interaction.type, token: interaction.token, version: 1 },
      channel_id: id,
      channel: channelJson(state, channel),
      ...(channel.type === 1 ? { user: who } : { guild_id: state.guild, member: { user: who } }),
      data: press === undefined ? { id: "1", name: command?.name, type: 1, options } : { component_type: 2, custom_id: press.customId },
      ...(press === undefined ? {} : { message: toJson(state, press.message) }),
    });
    setTimeout(() => {
      if (interaction.ack === null) resolve(false);
      wake(state);
    }, state.ackMs).unref();
  });
}

type Way = "callback" | "editReply" | "deleteReply" | "followUp";

export function answerInteraction(
  state: State,
  way: Way,
  token: string,
  body: Record<string, unknown>,
): { status: number; body: object } | Refusal {
  const interaction = state.interactions.get(token);
  if (way === "callback") return interaction === undefined ? UNKNOWN : acknowledge(state, interaction, body);
  if (interaction === undefined || interaction.ack === null || state.now() - interaction.at > TOKEN_MS) return NO_WEBHOOK;
  if (way === "deleteReply") {
    interaction.original = null;
    state.whispers = state.whispers.filter((one) => !(one.isOriginal && one.answers === interaction.id));
    return DONE;
  }
  const refusal = checkMessage(body as MessageBody, 0);
  if (refusal !== null) return refusal;
  return way === "editReply" ? editReply(state, interaction, body) : followUp(state, interaction, body);
}

function acknowledge(
  state: State,
  interaction: FakeInteraction,
  { type, data }: Record<string, unknown>,
): { status: number; body: object } | Refusal {
  if (interaction.ack !== null) return refuse(400, 40_060, "Interaction has already been acknowledged.");
  if (state.now() - interaction.at > state.ackMs) return UNKNOWN;
  interaction.ack = Number(type);
  interaction.isEphemeral = ((data as { flags?: number } | undefined)?.flags ?? 0) === EPHEMERAL;
  interaction.original = interaction.ack === 5 ? "" : null;
  interaction.settled(true);
  wake(state);
  return DONE;
}

function editReply(state: State, interaction: FakeInteraction, body: MessageBody): { status: number; body: object } | Refusal {
  if (interaction.original === null) return refuse(404, 10_008, "Unknown Message");
  interaction.original = body.content ?? "";
  const known = state.whispers.find((one) => one.isOriginal && one.answers === interaction.id);
  if (known === undefined) show(state, interaction, body, true);
  else known.content = interaction.original;
  return { status: 200, body: { id: nextId(state) } };
}

function followUp(state: State, interaction: FakeInteraction, body: MessageBody): { status: number; body: object } {
  show(state, interaction, body, false);
  return { status: 200, body: { id: nextId(state) } };
}

/** In a direct chat nobody else reads along: there it stands for all to see, who are one. */
function show(state: State, { id: answers, channel, user }: FakeInteraction, body: MessageBody, isOriginal: boolean): void {
  state.whispers.push({ channel, user, content: body.content ?? "", buttons: buttonsOf(body), isOriginal, answers });
  wake(state);
}
