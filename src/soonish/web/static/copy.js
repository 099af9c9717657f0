// Buttons that take a text along. Without a secure connection browsers offer no clipboard, so the old way remains.
import { toast } from "./toasts.js";

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("no clipboard");
}

export function reveal(root = document) {
  for (const button of root.querySelectorAll("[data-copy][hidden]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  try {
    await copy(button.dataset.copy);
    toast("Copied.");
  } catch {
    toast("This browser does not let a page copy. Select the text and copy it by hand.", { tone: "warn" });
  }
  button.focus();
});

reveal();
