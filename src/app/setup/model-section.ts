// Set-up: which model answers. The key goes to .env, the address and the name into the settings, and the next message is answered by it.
import { AppError } from "../../core/errors.ts";
import { commandWords } from "../../core/own-files.ts";
import { findLocalServers } from "../../models/local-servers.ts";
import type { ModelReply } from "../../models/model.ts";
import { BUILT_IN_PROVIDERS, isProviderName, parseModelName } from "../../models/provider.ts";
import { OFFLINE_MODEL } from "../../models/resolve.ts";
import type { FieldView, Touched } from "../../web/setup.ts";
import { defaultAgent } from "../agents.ts";
import type { ModelTrial } from "../models.ts";
import { joined, NO_EDIT, put, rawAt, type SecretPlace, type Section, type SetupNow, secretEdit, secretField, textOf } from "./section.ts";

interface Choice {
  readonly title: string;
  readonly keyPage?: string;
  readonly models: readonly string[];
  /** Its address is asked for; empty is an answer only where there is a usual one. */
  readonly address?: string;
}

const CHOICES: Readonly<Record<string, Choice>> = {
  anthropic: { title: "Anthropic", keyPage: "https://platform.claude.com/settings/keys", models: ["claude-sonnet-5"] },
  openai: { title: "OpenAI", keyPage: "https://platform.openai.com/api-keys", models: ["gpt-6-sol"] },
  google: { title: "Google Gemini", keyPage: "https://aistudio.google.com/apikey", models: ["gemini-3.8-flash"] },
  openrouter: { title: "OpenRouter", keyPage: "https://openrouter.ai/keys", models: ["anthropic/claude-sonnet-5"] },
  ollama: { title: "Ollama, on a machine of yours", models: ["qwen3"], address: "http://127.0.0.1:11434/api" },
  compatible: { title: "Another server that speaks OpenAI's protocol", models: [], address: "" },
};

export interface ModelSectionDeps {
  /** What answers now, and why it is that. */
  inUse(): { readonly model: string; readonly why: string };
  /** The main agent's own file that has a key for this provider, which counts before any other; null: none. */
  keyFile(provider: string): string | null;
  /** One tiny call under these settings. */
  readonly tryModel: ModelTrial;
}

export const createModelSection = (deps: ModelSectionDeps): Section => ({
  id: "model",
  async view(now) {
    const { model, why } = deps.inUse();
    const own = defaultAgent(now.config);
    return {
      id: "model",
      title: "Model",
      about: "Who answers. Herald tries it with one short call before it is kept.",
      items: [{ id: "model", title: "Model", state: stateOf(model, why), fields: await fieldsOf(now, model, deps), canRemove: false }],
      blank: null,
      isTested: true,
      notes:
        own.model?.primary === undefined
          ? []
          : [`The agent ${own.id} has a model of its own (under Agents), which counts before this one.`],
    };
  },
  edit: ({ values }, now) => editOf(values, now, deps),
  async test(candidate, { values }, signal) {
    const model = candidate.config.agents.defaults.model.primary ?? "";
    const reply = await deps.tryModel({ ...candidate, model, signal });
    if (reply.outcome === "ok") return { isOk: true, lines: [`${model} answered: ${quoted(reply.text)}`] };
    return { isOk: false, ...inWords(reply, textOf(values.provider) || (parseModelName(model)?.provider ?? "")) };
  },
});

const stateOf = (model: string, why: string): string =>
  model === OFFLINE_MODEL ? "no model is connected; the built-in offline model follows a few rules" : `${model} (${why})`;

const titleOf = (provider: string): string => CHOICES[provider]?.title ?? provider;
const customNames = (now: SetupNow): string[] => Object.keys(now.config.models.providers).filter((name) => CHOICES[name] === undefined);

function keyPlace(provider: string): SecretPlace {
  const [variable] = BUILT_IN_PROVIDERS[provider]?.envKeys ?? [];
  return {
    variable: variable ?? `${provider.toUpperCase().replaceAll("-", "_")}_API_KEY`,
    path: ["models", "providers", provider, "apiKey"],
  };
}

async function fieldsOf(now: SetupNow, inUse: string, deps: ModelSectionDeps): Promise<FieldView[]> {
  const names = [...Object.keys(CHOICES), ...customNames(now)];
  const current = currentModel(now, inUse);
  const withAddress = names.filter((name) => CHOICES[name] === undefined || CHOICES[name].address !== undefined);
  const suggestions = await suggested(now);
  return [
    {
      name: "provider",
      label: "Provider",
      help: "Who runs the model.",
      kind: "choice",
      value: current.provider,
      options: names.map((name) => ({ value: name, label: titleOf(name) })),
    },
    ...withAddress.map((name) => addressField(now, name)),
    ...names.filter((name) => name !== "ollama").map((name) => keyField(now, name, deps)),
    ...names.map(
      (name): FieldView => ({
        name: `model:${name}`,
        label: "Model",
        help: "Its id, as the provider writes it.",
        kind: "text",
        value: name === current.provider ? current.id : "",
        ...(CHOICES[name]?.models[0] === undefined ? { isNeeded: true } : { placeholder: CHOICES[name].models[0] }),
        suggestions: suggestions.get(name) ?? [],
        shownFor: { field: "provider", values: [name] },
      }),
    ),
  ];
}

const addressField = (now: SetupNow, name: string): FieldView => ({
  name: `address:${name}`,
  label: "Address",
  help:
    name === "ollama"
      ? "Empty: on this machine, at its usual port."
      : "Its base URL, such as https://llm.example.com/v1. The key and every conversation go there.",
  kind: "text",
  value: String(rawAt(now.files.tree, ["models", "providers", name, "baseUrl"]) ?? ""),
  placeholder: CHOICES[name]?.address || "https://llm.example.com/v1",
  ...(name === "compatible" ? { isNeeded: true } : {}),
  shownFor: { field: "provider", values: [name] },
});

function keyField(now: SetupNow, name: string, { keyFile }: ModelSectionDeps): FieldView {
  const { keyPage } = CHOICES[name] ?? {};
  const file = keyFile(name);
  const field = secretField(now, keyPlace(name), {
    name: `key:${name}`,
    label: "Key",
    help:
      keyPage === undefined
        ? "Left empty where the server wants none. It is kept in .env."
        : "It is kept in .env, readable by Herald's user alone.",
    ...(keyPage === undefined ? {} : { isNeeded: true, link: { text: "Get a key", url: keyPage } }),
    shownFor: { field: "provider", values: [name] },
  });
  return file === null ? field : { ...field, value: true, fixed: inFile(file, name) };
}

const inFile = (file: string, provider: string): string =>
  `${file} has a key for ${provider}, which counts before any other: change it with ${commandWords("auth")}.`;

/** What is known without asking anybody but this machine. */
async function suggested(now: SetupNow): Promise<Map<string, readonly string[]>> {
  const lists = new Map<string, readonly string[]>(Object.entries(CHOICES).map(([name, { models }]) => [name, models]));
  for (const [name, { models }] of Object.entries(now.config.models.providers)) {
    if (models.length > 0)
      lists.set(
        name,
        models.map(({ id }) => id),
      );
  }
  if (!now.config.models.probeLocal) return lists;
  const local = (await findLocalServers()).find(({ provider }) => provider === "ollama")?.definition.models ?? [];
  if (local.length > 0)
    lists.set(
      "ollama",
      local.map(({ id }) => id),
    );
  return lists;
}

/** As the settings have it, be it a name or a block. */
function writtenModel(now: SetupNow): string | undefined {
  const raw = rawAt(now.files.tree, ["agents", "defaults", "model"]);
  const name = typeof raw === "string" ? raw : rawAt(raw, ["primary"]);
  return typeof name === "string" ? name : undefined;
}

/** The one the form begins with: what is written, else what was found at start, else nothing of the first provider. */
function currentModel(now: SetupNow, inUse: string): { provider: string; id: string } {
  const name = parseModelName(writtenModel(now) ?? inUse);
  const isKnown = name !== null && (CHOICES[name.provider] !== undefined || customNames(now).includes(name.provider));
  return isKnown ? name : { provider: "anthropic", id: "" };
}

function editOf(values: Touched["values"], now: SetupNow, { inUse, keyFile }: ModelSectionDeps) {
  const current = currentModel(now, inUse().model);
  const provider = textOf(values.provider) || current.provider;
  if (!isProviderName(provider)) throw new AppError("invalid", "Choose a provider.");
  const file = keyFile(provider);
  if (file !== null && values[`key:${provider}`] !== undefined) throw new AppError("invalid", `Key: ${inFile(file, provider)}`);
  const typed = values[`model:${provider}`];
  const id =
    textOf(typed) || (typed === undefined && provider === current.provider ? current.id : "") || (CHOICES[provider]?.models[0] ?? "");
  if (id === "" || parseModelName(`${provider}/${id}`) === null)
    throw new AppError("invalid", id === "" ? "Model: its id is missing." : `Model: ${JSON.stringify(id.slice(0, 80))} is no model id.`);
  const raw = rawAt(now.files.tree, ["agents", "defaults", "model"]);
  const modelPath = ["agents", "defaults", "model", ...(typeof raw === "object" && raw !== null ? ["primary"] : [])];
  return joined([put(now, modelPath, `${provider}/${id}`), endpointEdit(values, provider, now), keyEdit(values, provider, now)]);
}

function endpointEdit(values: Touched["values"], provider: string, now: SetupNow) {
  const path = ["models", "providers", provider];
  const has = rawAt(now.files.tree, path) !== undefined;
  const typed = values[`address:${provider}`];
  const address = textOf(typed);
  if (provider === "compatible" && address === "" && (typed !== undefined || !has))
    throw new AppError("invalid", "Address: it is missing.");
  if (typed === undefined || (address === "" && !has)) return NO_EDIT;
  if (has) return put(now, [...path, "baseUrl"], address === "" ? undefined : address);
  return put(now, path, { api: provider === "ollama" ? "ollama" : "openai-compatible", baseUrl: address });
}

/** A provider that isn't built in has its key by its settings, which name the variable. */
function keyEdit(values: Touched["values"], provider: string, now: SetupNow) {
  const typed = values[`key:${provider}`];
  const place = keyPlace(provider);
  const kept = secretEdit(now, place, typed);
  const isNew = typeof typed === "string" && Object.keys(kept.secrets).length > 0 && typed !== "";
  if (!isNew || BUILT_IN_PROVIDERS[provider] !== undefined || place.path === undefined) return kept;
  const [variable = place.variable] = Object.keys(kept.secrets);
  return { ...kept, remove: [], set: [{ path: place.path, value: `\${${variable}}` }] };
}

const quoted = (text: string): string => `“${text.replace(/\s+/g, " ").trim().slice(0, 80)}”`;

/** The adapter's words are for a chat; here the person at the keyboard can do something about it. */
function inWords({ error, outcome }: ModelReply, provider: string): { lines: string[]; field?: string } {
  const name = titleOf(provider);
  const said = /: (.+)\. [A-Z][^.]*\.?$/.exec(error?.message ?? "")?.[1];
  const more = said === undefined ? [] : [`It said: ${said}`];
  const field = (one: string) => ({ field: `${one}:${provider}` });
  if (outcome === "aborted") return { lines: [`${name} did not answer in time. If it only is slow, save it all the same.`] };
  if (error?.kind === "auth") return { lines: [`${name} refused the key. Copy it again, all of it.`, ...more], ...field("key") };
  if (error?.kind === "rate" && /\(402\)|quota|credit|billing/i.test(error.message))
    return { lines: [`${name} took the key, but its account has no credit left: look at its billing.`, ...more] };
  if (error?.kind === "rate") return { lines: [`${name} allows no more calls for now. Wait a moment and try again.`, ...more] };
  if (error?.kind === "network" || error?.kind === "redirect")
    return {
      lines: [
        `${name} can't be reached from here: check the network${CHOICES[provider]?.keyPage === undefined ? " and the address" : ""}.`,
        ...more,
      ],
      ...(CHOICES[provider]?.keyPage === undefined ? field("address") : {}),
    };
  if (/knows no model/.test(error?.message ?? ""))
    return { lines: [`${name} does not know this model: check its id.`, ...more], ...field("model") };
  return { lines: [error?.message ?? `${name} failed.`], ...(error?.kind === "bad-request" ? field("model") : {}) };
}
