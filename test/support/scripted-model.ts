// Settings for a gateway whose agent talks to a scripted model server (fake-openai.ts) through the real library.

export const SCRIPTED_KEY = "scripted-key-0123456789";

/** `extra` is merged into agents.defaults. */
export function scriptedConfig(
  url: string,
  extra: Record<string, unknown> = {},
  rest: Record<string, unknown> = {},
): Record<string, unknown> {
  return {
    ...rest,
    agents: { ...(rest.agents as object | undefined), defaults: { model: "scripted/model-1", ...extra } },
    models: {
      providers: {
        scripted: {
          api: "openai-compatible",
          baseUrl: url,
          apiKey: SCRIPTED_KEY,
          models: [{ id: "model-1", contextWindow: 128000 }],
        },
      },
      ...(rest.models as object | undefined),
    },
  };
}
