import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SECTION_NAMES } from "../../../src/core/run.ts";
import { ACCEPTED_ROLES, OUTPUT_CONTRACT, parseRole, parseSections, ROLE_NAMES, type Role } from "../../../src/subagents/roles.ts";

const ALIASES: Record<string, string[]> = {
  general: ["worker", "default", "general-purpose"],
  explore: ["explorer", "exploration"],
  plan: ["planning", "awaiter"],
  review: ["reviewer", "code-review"],
  implementer: ["implement", "implementation", "builder"],
  verifier: ["verify", "verification", "validator", "tester"],
  custom: [],
};

function role(name: string | undefined): Role {
  const result = parseRole(name, ["read"]);
  if (!result.ok) throw new Error(result.error);
  return result.role;
}

describe("parseRole", () => {
  it("[RO1] knows every name and alias in any case", () => {
    for (const [name, aliases] of Object.entries(ALIASES)) {
      for (const accepted of [name, ...aliases]) {
        for (const spelling of [accepted, accepted.toUpperCase(), ` ${accepted[0]?.toUpperCase()}${accepted.slice(1)}\n`]) {
          expect(role(spelling).name, spelling).toBe(name);
        }
      }
    }
    expect(role(undefined).name).toBe("general");
  });

  it("[RO1] an unknown role lists all accepted names", () => {
    for (const unknown of ["wizard", "", "__proto__", "constructor", "x".repeat(10_000)]) {
      const result = parseRole(unknown);
      const error = result.ok ? "" : result.error;
      expect(error.length).toBeLessThan(600);
      for (const name of Object.entries(ALIASES).flat(2)) expect(error).toContain(name);
    }
    expect(ACCEPTED_ROLES).toHaveLength(ROLE_NAMES.length);
  });

  it("[RO1] custom needs allowedTools", () => {
    expect(parseRole("custom")).toMatchObject({ ok: false, error: expect.stringContaining("allowedTools") });
    expect(parseRole("Custom", [])).toMatchObject({ ok: false });
    expect(parseRole("custom", ["read"])).toMatchObject({ ok: true });
    expect(parseRole("explore")).toMatchObject({ ok: true });
  });

  it("[RO2] the posture says who may write and who has which shell", () => {
    for (const name of ["explore", "review", "verifier"]) {
      expect(role(name).capabilities).not.toContain("write");
      expect(role(name).deniedTools).toContain("remember");
    }
    for (const name of ["review", "plan"]) expect(role(name).capabilities).not.toContain("exec");
    for (const name of ["explore", "verifier"]) expect(role(name)).toMatchObject({ readOnlyShell: true });
    for (const name of ["general", "implementer", "custom"]) {
      expect(role(name)).toMatchObject({ readOnlyShell: false, deniedTools: [] });
      expect(role(name).capabilities).toEqual(["read", "write", "exec", "net", "memory", "session"]);
    }
    for (const name of ROLE_NAMES) expect(role(name).text.length).toBeGreaterThan(40);
  });
});

const ALL = { summary: "S", changes: "C", evidence: "E", risks: "R", blockers: "B", missing: [] };

describe("parseSections", () => {
  it("[RO3] finds the form it asks for", () => {
    const positions = SECTION_NAMES.map((name) => OUTPUT_CONTRACT.indexOf(`${name.toUpperCase()}:`));
    expect(positions).toEqual(positions.toSorted((a, b) => a - b));
    expect(parseSections(OUTPUT_CONTRACT).missing).toEqual([]);
    expect(parseSections("Done.\n\nSUMMARY:\nS\n\nCHANGES:\nC\n\nEVIDENCE:\nE\n\nRISKS:\nR\n\nBLOCKERS:\nB\n")).toEqual(ALL);
  });

  it.each([
    ["markdown headings", (name: string, text: string) => `## ${name}\n\n${text}\n`],
    ["numbered headings with a colon", (name: string, text: string) => `### 1. ${name.toLowerCase()}: ##\n${text}\n`],
    ["bold with the colon inside", (name: string, text: string) => `**${name}:** ${text}`],
    ["bold with the colon outside", (name: string, text: string) => `**${name}**: ${text}`],
    ["a whole bold line", (name: string, text: string) => `**${name}: ${text}**`],
    ["underscores", (name: string, text: string) => `__${name}__\n${text}`],
    ["bare words", (name: string, text: string) => `${name}\n${text}`],
    ["inline text in lower case", (name: string, text: string) => `${name.toLowerCase()}: ${text}`],
    ["Windows line ends", (name: string, text: string) => `${name}:\r\n${text}\r\n`],
    ["mixed case with a wide colon", (name: string, text: string) => `${name[0]}${name.slice(1).toLowerCase()}：${text}`],
  ])("[RO3] reads %s, in any order", (_style, render) => {
    const parts = SECTION_NAMES.map((name) => render(name.toUpperCase(), name.charAt(0).toUpperCase()));
    expect(parseSections(`Some words first.\n\n${parts.join("\n")}`)).toEqual(ALL);
    expect(parseSections(parts.toReversed().join("\n"))).toEqual(ALL);
    expect(parseSections(`\`\`\`markdown\n${parts.join("\n")}\n\`\`\``)).toEqual(ALL);
  });

  it("[RO3] a missing or empty section is noted", () => {
    expect(parseSections("## Summary\nS\n## Changes\n\n## Risks\nNone.")).toEqual({
      summary: "S",
      changes: null,
      evidence: null,
      risks: "None.",
      blockers: null,
      missing: ["changes", "evidence", "blockers"],
    });
    for (const text of ["", "\n", "All done.", "```\n```"]) expect(parseSections(text).missing).toEqual([...SECTION_NAMES]);
  });

  it("[RO3] names inside code blocks and sentences are text", () => {
    const evidence = "I ran:\n```sh\nSUMMARY: printed by the tool\n## Risks\n```\n~~~~\n~~~\nBLOCKERS:\n~~~~\nend";
    expect(parseSections(`SUMMARY:\nS\nEVIDENCE:\n${evidence}\nRISKS: R`)).toMatchObject({
      summary: "S",
      evidence,
      risks: "R",
      blockers: null,
    });
    const prose = "Changes were made.\nSummary of it follows\n> RISKS: quoted\n- Blockers: in a list\nRisks-related: no\nsummary_file: no";
    expect(parseSections(`EVIDENCE:\n${prose}`)).toMatchObject({ evidence: prose, missing: ["summary", "changes", "risks", "blockers"] });
  });

  it("[RO3] an unclosed code block hides nothing, and a foreign heading ends a section", () => {
    expect(parseSections("```sh\nnpm test\nSUMMARY:\nS\nRISKS:\nR")).toMatchObject({ summary: "S", risks: "R" });
    expect(parseSections("## Summary\nS\n### Detail\nD\n## Appendix\nX")).toMatchObject({ summary: "S\n### Detail\nD" });
    expect(parseSections("SUMMARY: old\nSUMMARY: new\n    indented")).toMatchObject({ summary: "new\n    indented" });
  });

  it("[RO3] never throws, and stays linear on hostile text", () => {
    const line = fc.oneof(
      fc.string(),
      fc.constantFrom("```", "~~~~", "````md", "SUMMARY:", "## Changes", "**RISKS:**", "**BLOCKERS", "Evidence", "#", "> x"),
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 30 }), (lines) => {
        const { missing, ...sections } = parseSections(lines.join("\n"));
        expect(missing).toEqual(SECTION_NAMES.filter((name) => sections[name] === null));
      }),
      { numRuns: 2000 },
    );
    const startedAt = performance.now();
    parseSections("```\n~~~~\n".repeat(100_000));
    parseSections(Array.from({ length: 1500 }, (_, n) => "`".repeat(n + 3)).join("\nx\n"));
    parseSections(`SUMMARY${" ".repeat(500_000)}x\n## Changes${" #".repeat(250_000)}x\n${"\n".repeat(500_000)}`);
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });
});
