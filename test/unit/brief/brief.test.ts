import { describe, expect, it } from "vitest";
import { Brief } from "../../../src/brief/brief.ts";

const SAMPLE = `---
id: "brief-c9d2e7"
parentId: "brief-a4b1c8" # the parent task
protocolVersion: "1.2.0"
delegator: "agent-opencode-v4"
delegatee: "capability:docs"
timestamp: "2026-02-06T04:05:00Z"
currentDepth: 1
maxDepth: 3
x-team: docs
---

# Briefing: Update the docs
`;

describe("Brief", () => {
  it("[BP2] takes another protocol version, and refuses what is none", () => {
    const options = { delegator: "a", delegatee: "b", body: "x" };
    expect(Brief.parse(Brief.create({ ...options, protocolVersion: "1.3.0-beta" }).content).meta.protocolVersion).toBe("1.3.0-beta");
    expect(() => Brief.create({ ...options, protocolVersion: "newest" })).toThrow(
      "Invalid Brief document: protocolVersion must be a version such as 1.2.0",
    );
  });

  it("[BP1] is never deeper than its own limit", () => {
    const options = { delegator: "a", delegatee: "b", body: "x", currentDepth: 3 };
    const words = "Invalid Brief document: currentDepth must not be above maxDepth (2)";
    expect(() => Brief.create({ ...options, maxDepth: 2 })).toThrow(words);
    expect(() => Brief.parse(SAMPLE.replace("currentDepth: 1", "currentDepth: 3").replace("maxDepth: 3", "maxDepth: 2"))).toThrow(words);
    expect(Brief.create({ ...options, maxDepth: 3 }).canDelegate).toBe(false);
  });

  it("[BP2] creates with an id of its own, depth 0 and the protocol's version", () => {
    const brief = Brief.create({ delegator: "agent-x", delegatee: "agent-y", body: "# Task\n\nDo it." });
    expect(brief.id).toMatch(/^brief-[0-9a-f]{6}$/);
    expect(brief).toMatchObject({
      delegator: "agent-x",
      delegatee: "agent-y",
      isSubBrief: false,
      canDelegate: true,
      body: "# Task\n\nDo it.",
    });
    expect(brief.parentId).toBeUndefined();
    expect(brief.meta).toMatchObject({ protocolVersion: "1.2.0", currentDepth: 0 });
    expect(Math.abs(Date.parse(brief.meta.timestamp) - Date.now())).toBeLessThan(60_000);
    expect(brief.content).toMatch(/^---\nid: brief-/);
    expect(Brief.parse(brief.content)).toStrictEqual(brief);
    expect(Brief.parse(Buffer.from(brief.content))).toStrictEqual(brief);
  });

  it("[BP2] reads another writer's document, unknown fields included", () => {
    const brief = Brief.parse(SAMPLE);
    expect(brief).toMatchObject({ id: "brief-c9d2e7", parentId: "brief-a4b1c8", isSubBrief: true, canDelegate: true, content: SAMPLE });
    expect(brief.delegatee).toBe("capability:docs");
    expect(brief.meta["x-team"]).toBe("docs");
    expect(brief.body).toBe("# Briefing: Update the docs\n");
  });

  it("[BP2] FM-001 names every field at fault", () => {
    expect(() => Brief.parse('---\nid: "test"\n---\n\nBody.')).toThrow(
      /Invalid Brief document: .*protocolVersion.*delegator.*delegatee.*timestamp/,
    );
    expect(() => Brief.parse("No front matter")).toThrow(
      /Invalid Brief document: missing YAML frontmatter delimiters.*required fields: id, protocolVersion, delegator, delegatee, timestamp/,
    );
    expect(() => Brief.parse("---\na: [\n---\n")).toThrow(/Invalid Brief document: Invalid YAML frontmatter/);
    expect(() => Brief.parse(SAMPLE.replace('"1.2.0"', "1.2"))).toThrow(/Invalid Brief document: protocolVersion is missing or not text/);
    for (const [field, bad] of [
      ["currentDepth: 1", "currentDepth: -1"],
      ["currentDepth: 1", "currentDepth: 1.5"],
      ["maxDepth: 3", 'maxDepth: "3"'],
      ["maxDepth: 3", "maxDepth: .inf"],
      ['id: "brief-c9d2e7"', 'id: "../../etc/passwd"'],
      ['id: "brief-c9d2e7"', 'id: "a\\nb"'],
      ['"2026-02-06T04:05:00Z"', "tomorrow"],
      ['"agent-opencode-v4"', '" "'],
    ] as const) {
      expect(() => Brief.parse(SAMPLE.replace(field, bad)), bad).toThrow(
        `Invalid Brief document: ${field.startsWith('"2') ? "timestamp" : field.startsWith('"a') ? "delegator" : field.split(":")[0]}`,
      );
    }
    expect(() => Brief.create({ id: "a/b", delegator: "a", delegatee: "b", body: "" })).toThrow(/Invalid Brief document: id/);
  });

  it("[BP1] a sub-brief is linked, one deeper, and can't raise the limit", () => {
    const parent = Brief.create({ delegator: "a", delegatee: "b", body: "Task", maxDepth: 2 });
    const child = parent.createSubBrief({ delegator: "b", delegatee: "c", body: "Sub-task", maxDepth: 9 });
    expect(child).toMatchObject({ parentId: parent.id, isSubBrief: true, canDelegate: true });
    expect(child.meta).toMatchObject({ currentDepth: 1, maxDepth: 2 });
    const grandchild = Brief.parse(child.createSubBrief({ delegator: "c", delegatee: "d", body: "" }).content);
    expect(grandchild.meta).toMatchObject({ parentId: child.id, currentDepth: 2, maxDepth: 2 });
    expect(grandchild.canDelegate).toBe(false);
    expect(() => grandchild.createSubBrief({ delegator: "d", delegatee: "e", body: "" })).toThrow("maximum delegation depth 2");
    expect(parent.createSubBrief({ delegator: "b", delegatee: "c", body: "", maxDepth: 1 }).canDelegate).toBe(false);
  });

  it("[BP1] without a limit it can always delegate", () => {
    let brief = Brief.create({ delegator: "a", delegatee: "b", body: "Task" });
    for (let depth = 1; depth <= 20; depth++) {
      brief = brief.createSubBrief({ delegator: "b", delegatee: "c", body: "Sub-task" });
      expect(brief.meta.currentDepth).toBe(depth);
    }
    expect(brief.content).not.toContain("maxDepth");
  });

  it("[BP2] a response answers the brief by its id", () => {
    const response = Brief.parse(SAMPLE).createResponse({ status: "success", body: "# Done" });
    expect(response).toMatchObject({ id: "brief-c9d2e7", status: "success", isSuccess: true, body: "# Done" });
  });

  it("[BP2] can't be changed afterwards", () => {
    const brief = Brief.parse(SAMPLE);
    expect(() => Object.assign(brief.meta, { maxDepth: 99 })).toThrow(TypeError);
  });
});
