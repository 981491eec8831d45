// The title of the window: how many questions wait, and whether something was said while nobody looked.

const NAME = "Herald";
const now = { count: 0, isUnseen: false };

const draw = () => {
  const title = `${now.isUnseen ? "● " : ""}${now.count > 0 ? `(${now.count}) ` : ""}${NAME}`;
  if (document.title !== title) document.title = title;
};

export function showCount(count) {
  now.count = count;
  draw();
}

/** Marks it until the window is looked at. */
export function showUnseen() {
  now.isUnseen = document.visibilityState === "hidden";
  draw();
}

document.addEventListener("visibilitychange", () => {
  if (document.visibilityState !== "visible") return;
  now.isUnseen = false;
  draw();
});
