// Dialogs, and the forms and questions that stand behind a button.
function open(id) {
  const one = document.getElementById(id);
  if (one instanceof HTMLDialogElement && !one.open) one.showModal();
  else if (one instanceof HTMLDetailsElement) unfold(one);
}

export function unfold(details) {
  details.open = true;
  details.scrollIntoView({ block: "nearest" });
  details.querySelector("input:not([type=hidden]), select, textarea, .button.solid")?.focus();
}

const questions = () => document.querySelectorAll("details.confirm[open]");

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-open]");
  if (opener) {
    event.preventDefault();
    open(opener.dataset.open);
  }
  if (event.target.closest("[data-close]")) {
    event.preventDefault();
    event.target.closest("dialog").close();
  }
  if (event.target instanceof HTMLDialogElement) event.target.close(); // its backdrop
  for (const question of questions()) if (!question.contains(event.target)) question.open = false;
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const question of questions()) {
    question.open = false;
    question.querySelector("summary").focus();
  }
});

for (const button of document.querySelectorAll("button[data-open]")) button.hidden = false;
// A link to a form opens it.
addEventListener("hashchange", target);
function target() {
  const one = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  if (one instanceof HTMLDetailsElement) unfold(one);
}
// Not before the browser has gone to the place that the address names: it takes the focus away on its way.
addEventListener("load", target);
