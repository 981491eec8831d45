// How much a model is asked to think: settings and sessions_spawn name a level, a run keeps it, a provider gets it in its own words.

export const THINKING_LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh", "max"] as const;
export type Thinking = (typeof THINKING_LEVELS)[number];
