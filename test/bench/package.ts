// The package as people install it beside `npm start` from the repository, in one run: how much lies on the disk, how many packages, how soon
// it is ready and what it holds at rest. Offline model, no channels.
import { lstatSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { createHarness, type Harness } from "../support/harness.ts";
import { installPacked } from "../support/packed.ts";
import { atMost, median, type Row, rssMb, type Topic, timed, told } from "./measure.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const STARTS = 7;
/** Long enough for it to give back what its start took. */
const REST_MS = 25_000;
const MB = 1e6;

export const packageTopic: Topic = { name: "package", run: measurePackage };

async function measurePackage(): Promise<Row[]> {
  await using packed = await installPacked();
  await using source = await createHarness();
  await using bundle = await createHarness({ program: packed.program });
  const starts = { source: [] as number[], bundle: [] as number[] };
  // In turn, so that a slow moment of the machine falls on both; at the first start everything is compiled.
  for (let n = 0; n < STARTS; n++) {
    starts.source.push(await startAgain(source));
    starts.bundle.push(await startAgain(bundle));
  }
  await new Promise((resolve) => setTimeout(resolve, REST_MS));
  const [ms, mb] = [
    { source: median(starts.source), bundle: median(starts.bundle) },
    { source: rssMb(source.pid()), bundle: rssMb(bundle.pid()) },
  ];
  const [own, repository] = [installedIn(packed.project), installedIn(ROOT)];
  const tarball = (statSync(packed.tarball).size / MB).toFixed(1);
  return [
    told(
      "installed package",
      `${own.mb.toFixed(1)} MB, ${own.packages} package`,
      `a tarball of ${tarball} MB, source maps included; what runs in the repository has ${Math.round(repository.mb)} MB in ${repository.packages} packages`,
    ),
    atMost(
      "time to ready, package / `npm start`",
      ms.bundle / ms.source,
      1,
      `${Math.round(ms.bundle)} ms against ${Math.round(ms.source)} ms, median of ${STARTS} starts in turn`,
    ),
    atMost(
      "idle RSS, package / `npm start`",
      mb.bundle / mb.source,
      1,
      `${Math.round(mb.bundle)} MB against ${Math.round(mb.source)} MB, ${REST_MS / 1000} s after they were ready`,
    ),
  ];
}

async function startAgain(harness: Harness): Promise<number> {
  await harness.stop();
  return timed(() => harness.restart());
}

interface Installed {
  readonly packages: number;
  readonly mb: number;
}

/** What runs: neither the packages of tests and build nor the Node that comes along in the repository. */
function installedIn(folder: string): Installed {
  const { packages } = JSON.parse(readFileSync(join(folder, "node_modules/.package-lock.json"), "utf8")) as Lock;
  const paths = Object.keys(packages).filter(
    (path) => packages[path]?.dev !== true && !/^node_modules\/node-(?:bin-)?(?:linux|darwin)-/.test(path),
  );
  return { packages: paths.length, mb: paths.reduce((sum, path) => sum + ownBytes(join(folder, path)), 0) / MB };
}

interface Lock {
  readonly packages: Readonly<Record<string, { readonly dev?: boolean }>>;
}

/** Without the packages below it, and what was compiled on the way. */
const ownBytes = (folder: string): number =>
  readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => name !== "node_modules")
    .reduce((sum, entry) => {
      const path = join(folder, entry.name);
      return sum + (entry.isDirectory() ? ownBytes(path) : lstatSync(path).size);
    }, 0);
