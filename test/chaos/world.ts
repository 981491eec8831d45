// What stands around the one gateway of a chaos run, and its database.
import { DatabaseSync } from "node:sqlite";
import { createGatewayProcess, type GatewayProcess } from "./gateway-process.ts";
import type { Seen } from "./history.ts";
import { seenOnPage } from "./record.ts";
import { createScene, type Platforms, type Scene } from "./scene.ts";

export interface World extends Scene {
  readonly gateway: GatewayProcess;
  seen(): Promise<Seen[]>;
  rows<T>(sql: string): T[];
}

export async function createWorld(dir: string, seed: number, platforms: Platforms = "usual"): Promise<World> {
  const scene = await createScene({ seed, platforms }, (config, secrets) => createGatewayProcess(dir, config, secrets));
  const gateway = scene.front;
  const rows = <T>(sql: string): T[] => readRows<T>(gateway.stateDir, sql);
  return {
    ...scene,
    gateway,
    seen: async () => [...scene.seenOnPlatforms(), ...(await seenOnPage(rows))],
    rows,
    async close() {
      gateway.kill("SIGKILL");
      await gateway.ended(5_000);
      await scene.close();
    },
  };
}

function readRows<T>(stateDir: string, sql: string): T[] {
  const db = new DatabaseSync(`${stateDir}/herald.db`, { readOnly: true });
  try {
    return db.prepare(sql).all() as T[];
  } finally {
    db.close();
  }
}
