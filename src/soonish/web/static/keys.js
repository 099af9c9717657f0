// The keyboard: `/` to the filter, `g` and a letter to a page, `n` for a new thing, `j` `k` through lists, `?` for help.
import { unfold } from "./dialogs.js";

const GO_WITHIN = 1500; // milliseconds between the two keys
let went = -Infinity; // when `g` was pressed

const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.checkVisibility());
const handle = (row) => row.querySelector("a, button, summary");

function step(by) {
  const all = rows();
  const here = all.findIndex((row) => row.contains(document.activeElement));
  const next = here < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(here + by, 0), all.length - 1);
  if (!all[next]) return false;
  handle(all[next])?.focus();
  all[next].scrollIntoView({ block: "nearest" });
  return true;
}

const KEYS = {
  "/": () => focus(document.querySelector("[data-search]")),
  n: () => begin(document.querySelector("[data-new]")),
  j: () => step(1),
  k: () => step(-1),
  "?": () => document.getElementById("keyboard")?.showModal() ?? true,
};

function focus(field) {
  field?.focus();
  field?.select?.();
  return Boolean(field);
}

function begin(thing) {
  if (thing instanceof HTMLDetailsElement) unfold(thing);
  else thing?.click();
  return Boolean(thing);
}

function go(key) {
  const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
  if (link) location.assign(link.href);
  return Boolean(link);
}

// The help lists what a key does here, not what it does on another page.
for (const one of document.querySelectorAll("#keyboard [data-where]"))
  one.hidden = !document.querySelector(one.dataset.where);

const typing = (target) => target.closest("input:not([type=checkbox]), select, textarea, [contenteditable]");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (typing(event.target) || document.querySelector("dialog[open]")) return;
  const second = event.timeStamp - went < GO_WITHIN;
  went = event.key === "g" && !second ? event.timeStamp : -Infinity;
  if (event.key === "g" && !second) return;
  const done = second ? go(event.key) : Object.hasOwn(KEYS, event.key) && KEYS[event.key]();
  if (done) event.preventDefault();
});
