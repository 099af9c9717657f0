// Forms: go to what is wrong, send once, suggest time zones.
document.querySelector("[data-focus]")?.focus();

document.addEventListener("submit", (event) => {
  if (event.defaultPrevented) return;
  if (event.target.dataset.sent) event.preventDefault();
  else event.target.dataset.sent = "yes";
});

// A page that the browser kept may be used once more.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// Filters that are chosen, not typed, apply at once.
document.addEventListener("change", (event) => {
  if (event.target.matches("form.filter select")) event.target.form.requestSubmit();
});

for (const list of document.querySelectorAll("datalist[data-zones]")) {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const zones = new Set([own, ...(Intl.supportedValuesOf?.("timeZone") ?? [])]);
  list.append(...[...zones].map((zone) => new Option(zone, zone)));
}
