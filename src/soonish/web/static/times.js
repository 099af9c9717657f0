// Countdowns that run, and the hands of the clocks. The server's clock counts: this one may be wrong by minutes.
const UNITS = [[1, "s", 90], [60, "min", 90], [3600, "h", 36], [86400, "d", 60]];
let ahead = 0; // by how much the server's clock is ahead of ours, in milliseconds

// The same words as the server's.
function roughly(seconds) {
  for (const [unit, word, until] of UNITS)
    if (seconds < unit * until) return `${Math.max(1, Math.floor(seconds / unit))} ${word}`;
  const days = seconds / 86400;
  return days < 700 ? `${Math.floor(days / 30)} months` : `${Math.floor(days / 365)} years`;
}

export function relative(at, now) {
  const gap = (at - now) / 1000;
  if (Math.abs(gap) < 1) return "now";
  return gap > 0 ? `in ${roughly(gap)}` : `${roughly(-gap)} ago`;
}

export const now = () => Date.now() + ahead;

// A page that was just made says what time it is there.
export function settle(page) {
  const said = Date.parse(page.body.dataset.now);
  if (said) ahead = said - Date.now();
}

export function run(root = document) {
  const moment = now();
  for (const one of root.querySelectorAll("[data-relative]")) {
    const words = relative(Date.parse(one.closest("time").dateTime), moment);
    if (one.textContent !== words) one.textContent = words;
  }
  turn(moment);
}

function turn(moment) {
  const zone = document.body.dataset.zone;
  if (!zone) return;
  const [hour, minute] = new Intl.DateTimeFormat("en-GB", { timeZone: zone, hour: "numeric", minute: "numeric" })
    .format(moment).split(":").map(Number);
  const angles = { hour: (hour % 12) * 30 + minute / 2, minute: minute * 6 };
  for (const [hand, angle] of Object.entries(angles))
    for (const one of document.querySelectorAll(`[data-clock] .${hand}`)) {
      const turned = `rotate(${angle} 16 16)`;
      if (one.getAttribute("transform") !== turned) one.setAttribute("transform", turned);
    }
}

function again() {
  run();
  setTimeout(again, 1000 - (now() % 1000));
}

settle(document);
again();
