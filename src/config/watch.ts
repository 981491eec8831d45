// Settings that change while the gateway runs (CF4): a changed file or a call of reload() (SIGHUP) → load again → onChange,
// or onError and the old settings stay. Editors replace a file by renaming another over it, so the folder is watched.
import { type FSWatcher, watch } from "node:fs";
import { basename, dirname } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { AppError, errorText } from "../core/errors.ts";
import type { LoadedConfig } from "./config.ts";

export interface WatchConfigOptions {
  /** What runs now. */
  readonly current: LoadedConfig;
  load(): LoadedConfig;
  /** Only when something differs, but for reload(), which always tells. */
  onChange(next: LoadedConfig): void;
  /** The message is ready for the operator; the old settings stay. */
  onError(error: AppError): void;
  /** Editors write in several steps; wait until it is quiet for this long. */
  readonly debounceMs?: number;
}

export interface ConfigWatch {
  /** Loads now, without waiting. */
  reload(): void;
  /** No call of onChange or onError after this. */
  close(): void;
}

/** Doesn't keep the process alive. Without a folder to watch, reload() still works. */
export function watchConfig(options: WatchConfigOptions): ConfigWatch {
  const { onChange, onError, debounceMs = 200 } = options;
  let { current } = options;
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;

  const reload = (isAsked: boolean) => {
    clearTimeout(timer);
    if (isClosed) return;
    const next = loadNext(options, current);
    if (next instanceof AppError) return onError(next);
    const isSame = isDeepStrictEqual([next.config, next.env], [current.config, current.env]);
    current = next;
    if (isAsked || !isSame) onChange(next);
  };
  const changed = () => {
    clearTimeout(timer);
    if (!isClosed) timer = setTimeout(reload, debounceMs, false).unref();
  };
  const watcher = watchFile(current.path, changed, (error) => isClosed || onError(error));
  return {
    reload: () => reload(true),
    close() {
      isClosed = true;
      clearTimeout(timer);
      watcher?.close();
    },
  };
}

/** A file that vanished is no request for defaults: they would silently drop every allow-list. */
function loadNext({ load }: WatchConfigOptions, current: LoadedConfig): LoadedConfig | AppError {
  try {
    const next = load();
    return current.found && !next.found ? new AppError("config", `${current.path}: the file is gone; the old settings keep running`) : next;
  } catch (error) {
    return error instanceof AppError ? error : new AppError("config", `settings can't be loaded: ${errorText(error)}`, { cause: error });
  }
}

function watchFile(path: string, changed: () => void, failed: (error: AppError) => void): FSWatcher | null {
  const toError = (error: unknown) =>
    new AppError("config", `${path} can't be watched for changes (SIGHUP still reloads): ${errorText(error)}`, { cause: error });
  try {
    // Some systems don't say which file it was.
    const watcher = watch(dirname(path), { persistent: false }, (_event, name) => {
      if (name === null || name === basename(path)) changed();
    });
    return watcher.on("error", (error) => failed(toError(error)));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") failed(toError(error));
    return null;
  }
}
