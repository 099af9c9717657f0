// Dark and light without loading the page again; what the system would choose anyway is not kept as a choice.
const system = matchMedia("(prefers-color-scheme: dark)");

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-theme-switch]")) return;
  event.preventDefault();
  const wanted = event.submitter.value;
  const theme = (wanted === "dark") === system.matches ? "system" : wanted;
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  fetch("/theme", { method: "POST", body: new URLSearchParams({ theme, back: "/" }), redirect: "manual" });
  event.target.querySelector(wanted === "dark" ? ".to-light" : ".to-dark").focus();
});
