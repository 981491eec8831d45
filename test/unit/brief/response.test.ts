import { describe, expect, it } from "vitest";
import { BriefResponse, RESPONSE_STATUSES } from "../../../src/brief/response.ts";

const SAMPLE = `---
id: "brief-a4b1c8"
status: "failure"
timestamp: "2026-02-06T04:30:00Z"
---

# Response: Failed
`;

describe("BriefResponse", () => {
  it("[BP2] reads another writer's document", () => {
    expect(BriefResponse.parse(SAMPLE)).toMatchObject({
      id: "brief-a4b1c8",
      status: "failure",
      isSuccess: false,
      body: "# Response: Failed\n",
      content: SAMPLE,
    });
    expect(BriefResponse.parse(SAMPLE).meta.timestamp).toBe("2026-02-06T04:30:00Z");
  });

  it.each(RESPONSE_STATUSES)("[BP2] writes and reads back status %s", (status) => {
    const response = BriefResponse.create({ id: "brief-abc123", status, body: "# Result\n\n50% done.\n" });
    expect(response.isSuccess).toBe(status === "success");
    expect(BriefResponse.parse(response.content)).toStrictEqual(response);
  });

  it("[BP2] names every field at fault", () => {
    expect(() => BriefResponse.parse(SAMPLE.replace("failure", "unknown"))).toThrow(
      "Invalid Response document: status must be one of success, failure, partial, rejected",
    );
    expect(() => BriefResponse.parse('---\nid: "test"\n---\n\nBody.')).toThrow(/Invalid Response document: status.*timestamp/);
    expect(() => BriefResponse.parse("text")).toThrow(/Invalid Response document: missing YAML frontmatter delimiters/);
    expect(() => BriefResponse.parse(Buffer.from([0xff]))).toThrow(/Invalid Response document: not UTF-8: invalid byte at offset 0/);
  });
});
