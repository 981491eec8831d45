// Set-up as the page has it, made at its first use: a gateway that is set up rarely needs it.
import { onFirstUse } from "../../core/first-use.ts";
import type { SetupDesk } from "../../web/setup.ts";
import type { SettingsAccess, SetupDeps } from "./desk.ts";

/** Null without files to change. */
export function createSetup({
  access,
  ...deps
}: Omit<SetupDeps, "access"> & { readonly access: SettingsAccess | undefined }): SetupDesk | null {
  if (access === undefined) return null;
  const desk = onFirstUse(async () => (await import("./desk.ts")).createSetupDesk({ ...deps, access }));
  return {
    view: async () => (await desk()).view(),
    test: async (touched) => (await desk()).test(touched),
    save: async (change) => (await desk()).save(change),
    remove: async (item) => (await desk()).remove(item),
    reload: async () => (await desk()).reload(),
    restart: async () => (await desk()).restart(),
  };
}
