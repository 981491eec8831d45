// Is this a homeserver, and whose token is it? Asked by set-up before both are kept.
import { type ApiFailure, createApi, explainFailure, v3 } from "./api.ts";

export interface MatrixProbe {
  readonly homeserver: string;
  readonly accessToken: string;
  readonly timeoutMs: number;
}

export type MatrixFound =
  | { readonly isOk: true; readonly userId: string }
  | { readonly isOk: false; readonly problem: string; readonly isToken: boolean };

/** Never throws. */
export async function probeMatrix({ homeserver, accessToken, timeoutMs }: MatrixProbe): Promise<MatrixFound> {
  const api = createApi({ homeserver: homeserver.replace(/\/+$/, ""), accessToken, timeoutMs, signal: AbortSignal.timeout(timeoutMs) });
  try {
    const { user_id: userId } = await api.call("GET", v3("account", "whoami"));
    if (typeof userId === "string" && userId.startsWith("@")) return { isOk: true, userId };
    return { isOk: false, isToken: false, problem: `${hostOf(homeserver)} named no user for this token.` };
  } catch (error) {
    return { isOk: false, ...inWords(explainFailure(error), hostOf(homeserver)) };
  }
}

const hostOf = (homeserver: string): string => URL.parse(homeserver)?.host ?? homeserver;

function inWords(failure: ApiFailure, host: string): { problem: string; isToken: boolean } {
  switch (failure.kind) {
    case "auth":
      return {
        isToken: true,
        problem: `${host} does not know this token. Sign in as the bot once more and copy its access token; signing out ends it.`,
      };
    case "limited":
      return { isToken: false, problem: `${host} wants us to wait for ${Math.ceil(failure.afterMs / 1000)} seconds. Try again then.` };
    case "offline":
      return { isToken: false, problem: `${host} can't be reached from here: check the address and the network (${failure.reason}).` };
    default:
      return {
        isToken: false,
        problem: `${host} did not answer as a homeserver does (${failure.reason}). The address may be that of your server's name: look at https://<name>/.well-known/matrix/client.`,
      };
  }
}
