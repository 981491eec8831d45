// Files of a message: pictures in their place, everything else as a chip that saves it. Both are fetched with this browser's key, so
// no address of a file opens by itself.
import { el, toast } from "./dom.js";
import { getBlob } from "./wire.js";
import { bytes } from "./words.js";

/** Far pictures wait until somebody comes near. */
const watcher = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      void fill(target);
    }
  },
  { rootMargin: "400px" },
);

/** Null when there are none. */
export function filesNode(files = []) {
  if (files.length === 0) return null;
  return el(
    "ul",
    { class: "files plain-list", "aria-label": "Files" },
    ...files.map((file) => el("li", {}, file.isImage ? picture(file) : saver(file))),
  );
}

function saver(file) {
  const label = `Save ${file.name}, ${bytes(file.size)}`;
  return el(
    "button",
    { class: "file-chip", type: "button", title: file.name, "aria-label": label, onclick: () => void save(file) },
    el("span", { class: "file-name" }, file.name),
    el("span", { class: "faint" }, bytes(file.size)),
  );
}

function picture(file) {
  const size = file.width === undefined ? {} : { width: file.width, height: file.height };
  const image = el("img", { alt: file.name, "data-file": file.id, ...size });
  watcher.observe(image);
  return el("button", { class: "picture", type: "button", title: `Save ${file.name}`, onclick: () => void save(file) }, image);
}

async function fill(image) {
  try {
    const address = URL.createObjectURL(await getBlob(`/api/files/${image.dataset.file}`));
    image.onload = () => URL.revokeObjectURL(address);
    image.src = address;
  } catch {
    image.classList.add("missing");
  }
}

async function save({ id, name }) {
  try {
    const address = URL.createObjectURL(await getBlob(`/api/files/${id}`));
    el("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  } catch (error) {
    toast(`“${name}” can't be loaded: ${error.message}`);
  }
}
