// What Slack sends, as samples.

/** A press on a button of ours in a thread. */
export const PRESS = {
  type: "block_actions",
  user: { id: "U1", username: "ann", team_id: "T1" },
  team: { id: "T1" },
  api_app_id: "A1",
  container: { channel_id: "C1", message_ts: "200.000001", thread_ts: "100.000001" },
  actions: [{ action_id: "herald_0", value: "/subagents stop 1" }],
};
