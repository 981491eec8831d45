import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SECTION_NAMES } from "../../../src/core/run.ts";
import { OUTPUT_CONTRACT, parseSections, recordSections } from "../../../src/subagents/sections.ts";
import { cpuTime } from "../../support/cpu-time.ts";

const ALL = { summary: "S", changes: "C", evidence: "E", risks: "R", blockers: "B" };

const missing = (text: string) => {
  const sections = parseSections(text);
  return SECTION_NAMES.filter((name) => sections[name] === null);
};

describe("parseSections", () => {
  it("[RO3] finds the form it asks for", () => {
    const positions = SECTION_NAMES.map((name) => OUTPUT_CONTRACT.indexOf(`${name.toUpperCase()}:`));
    expect(positions).toEqual(positions.toSorted((a, b) => a - b));
    expect(missing(OUTPUT_CONTRACT)).toEqual([]);
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
    });
    for (const text of ["", "\n", "All done.", "```\n```"]) expect(missing(text)).toEqual([...SECTION_NAMES]);
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
    expect(parseSections(`EVIDENCE:\n${prose}`)).toEqual({ summary: null, changes: null, evidence: prose, risks: null, blockers: null });
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
        const sections = parseSections(lines.join("\n"));
        expect(Object.keys(sections)).toEqual([...SECTION_NAMES]);
        for (const text of Object.values(sections)) expect(text === null || text.trim() !== "").toBe(true);
      }),
      { numRuns: 2000 },
    );
    const worked = cpuTime();
    parseSections("```\n~~~~\n".repeat(100_000));
    parseSections(Array.from({ length: 1500 }, (_, n) => "`".repeat(n + 3)).join("\nx\n"));
    parseSections(`SUMMARY${" ".repeat(500_000)}x\n## Changes${" #".repeat(250_000)}x\n${"\n".repeat(500_000)}`);
    expect(worked()).toBeLessThan(10_000);
  });
});

it("[RO3] the record keeps each section cut to fit, and none of a text without words", () => {
  expect(recordSections(" \n")).toBeNull();
  const recorded = recordSections(`SUMMARY: ${"x".repeat(3_000)}\nRISKS: R`);
  expect(recorded).toEqual({ summary: `${"x".repeat(2_000)}… (cut)`, changes: null, evidence: null, risks: "R", blockers: null });
});
