// From the token to a signed-in browser: taken from the link's fragment (which no server sees) or pasted, posted once, and
// gone from the address bar before anything else happens. What comes back is a cookie and a key; both are needed.
import { byId } from "./dom.js";
import { keepKey, postJson } from "./wire.js";

/** The token of `#token=…`, removed from the URL; null when there is none. */
export function takeTokenFromUrl() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token !== null) history.replaceState(null, "", location.pathname);
  return token;
}

export async function signIn(token) {
  const { key } = await postJson("/api/login", { token });
  keepKey(key);
}

/** Shows the form until somebody signed in. `reason` may be "". */
export function showSignIn(reason, onSignedIn) {
  byId("app").hidden = true;
  byId("sign-in").hidden = false;
  byId("sign-in-error").textContent = reason;
  const input = byId("token");
  input.focus();
  byId("sign-in-form").onsubmit = async (event) => {
    event.preventDefault();
    byId("sign-in-error").textContent = "";
    try {
      // A pasted link is as good as the token in it.
      await signIn(input.value.trim().replace(/^.*#token=/, ""));
      input.value = "";
      byId("sign-in").hidden = true;
      onSignedIn();
    } catch (error) {
      byId("sign-in-error").textContent = error instanceof TypeError ? "Herald can't be reached." : error.message;
      input.select();
    }
  };
}
