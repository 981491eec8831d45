import { describe, expect, it } from "vitest";
import { ACCEPTED_ROLES, parseRole, ROLE_NAMES, type Role } from "../../../src/subagents/roles.ts";

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
