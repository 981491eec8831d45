// The few lines of DOM every module here shares. Text goes in as text; the one door for HTML is setServerHtml, and
// only what the server rendered and made safe goes through it.

export function byId(id) {
  const node = document.getElementById(id);
  if (node === null) throw new Error(`no element #${id}`);
  return node;
}

/** `el("button", { class: "small", type: "button", onclick: … }, "Stop")`: attributes, listeners, then children. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Under `require-trusted-types-for` no text becomes HTML but by a policy; of ours there is this one, and only here. */
const policy = globalThis.trustedTypes?.createPolicy("herald", { createHTML: (html) => html });

/** For HTML from Herald's own renderer, never for anything a person or a model wrote as it is. */
export function setServerHtml(node, html) {
  node.innerHTML = policy === undefined ? html : policy.createHTML(html);
}

/** Changes the text only when it differs, so that a screen reader is not told the same thing each second. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Copies, and says so on the button for a moment. */
export async function copyText(text, button) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Can't copy";
  }
  setTimeout(() => {
    button.textContent = label;
  }, 1500);
}

/** A short word at the bottom of the window. */
export function toast(text) {
  const node = byId("toast");
  node.textContent = text;
  node.hidden = false;
  clearTimeout(node.timer);
  // Long enough to be read.
  node.timer = setTimeout(
    () => {
      node.hidden = true;
    },
    Math.max(4000, text.length * 60),
  );
}

/** Where localStorage is full or forbidden, what should be kept lasts as long as the tab. */
const ofThisTab = new Map();

/** localStorage, which may hand back nonsense: then the fallback counts. */
export const memory = {
  get(key, fallback) {
    if (ofThisTab.has(key)) return ofThisTab.get(key) ?? fallback;
    try {
      return JSON.parse(localStorage.getItem(`herald.${key}`)) ?? fallback;
    } catch {
      return fallback;
    }
  },
  set(key, value) {
    try {
      if (value === null) localStorage.removeItem(`herald.${key}`);
      else localStorage.setItem(`herald.${key}`, JSON.stringify(value));
      ofThisTab.delete(key);
    } catch {
      ofThisTab.set(key, value);
    }
  },
};

/** A random uuid, also where the page is not a secure context. */
export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
