// Files over Slack (CH2), with the whole program as a process and Slack as it behaves.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { calls, plan } from "../support/brain.ts";
import { type ChannelScene, createChannelScene } from "../support/channel-scene.ts";

const DIRECT = "D0ANN";

let scene: ChannelScene;
beforeAll(async () => {
  scene = await createChannelScene({ telegram: null, slack: { allowFrom: ["U0PERSON"] } });
  scene.slack.channels.add(DIRECT, "im");
  await scene.connected();
});
afterAll(async () => scene[Symbol.asyncDispose]());

const requestWith = (mark: string) =>
  scene.slack.until(
    () => scene.model.calls.findLast((call) => call.messages.at(-1)?.text.endsWith(mark) === true),
    `a request that ends with ${mark}`,
  );
const workspace = () => join(scene.herald.stateDir, "workspace");
const slackSaid = (fits: RegExp) => scene.slack.until(() => scene.slack.messages(DIRECT).find(({ text }) => fits.test(text)), String(fits));

describe("Slack", () => {
  const send = (text: string, ...files: Record<string, unknown>[]) =>
    void scene.slack.say({ channel: DIRECT, text, extra: { subtype: "file_share", files } });

  it("[CH2] what is attached is fetched with the bot's token from Slack's own hosts, and from nowhere else", async () => {
    const { slack } = scene;
    send("read it", slack.attach("plan.md", "text/markdown", Buffer.from("the word is crane")));
    expect(JSON.stringify((await requestWith("read it")).body)).toContain("the word is crane");
    send("foreign", { name: "evil.txt", mimetype: "text/plain", size: 3, url_private: "https://files.example.com/evil.txt" });
    await slackSaid(/“evil\.txt” could not be fetched: its address is not Slack's\./);
    slack.faults.add("download", "500");
    send("again", slack.attach("late.md", "text/markdown", Buffer.from("the word is heron")));
    expect(JSON.stringify((await requestWith("again")).body)).toContain("the word is heron");
    send("nothing there", {
      ...slack.attach("gone.md", "text/markdown", Buffer.from("x")),
      url_private: `${slack.apiUrl.replace("/api/", "")}/files-pri/none`,
    });
    await slackSaid(/“gone\.md” could not be fetched: it is no longer there\./);
    await scene.settled();
  });

  it("[CH2][DL4] send_file uploads and shares it, once, also when the answer to the sharing is lost", async () => {
    const { slack } = scene;
    writeFileSync(join(workspace(), "s.csv"), "c,d\n");
    slack.faults.add("files.completeUploadExternal", "drop_after");
    slack.say({ channel: DIRECT, text: plan([calls(["send_file", { path: "s.csv", caption: "Figures" }])]) });
    const shared = await slackSaid(/^Figures$/);
    expect(shared.files).toMatchObject([{ name: "s.csv", content: "c,d\n" }]);
    await scene.settled();
    expect(slack.messages(DIRECT).filter(({ files }) => files.some(({ name }) => name === "s.csv"))).toHaveLength(1);
  });
});
