// Parts of the page that follow what happens: the server says that a topic changed, and the part is fetched anew.
//
// A part is `<... id="x" data-live="topic other">`. It is patched in place, so nothing flickers, and what somebody
// typed, opened or focused stays as it is. A page that nobody sees follows nothing.
import { reveal } from "./copy.js";
import { patch } from "./patch.js";
import { run, settle } from "./times.js";
import { toast } from "./toasts.js";

const SILENCE = 5000; // milliseconds without a connection, until it is said
const WAITS = [1000, 2000, 5000, 15000, 60000];
const RESTING = 4000; // so long does a pointer over a button keep the lines where they are

const parts = () => [...document.querySelectorAll("[data-live][id]")];
const topicsOf = (part) => part.dataset.live.split(" ");

let source = null;
let since = document.body.dataset.liveSince;
let moved = 0;
let tries = 0;
let waiting = null;
let away = null;
let note = null;
let fetching = null;
let wanted = new Set();

function open() {
  const topics = [...new Set(parts().flatMap(topicsOf))];
  if (source || !topics.length || document.hidden) return;
  source = new EventSource(`/live?topics=${topics.join(",")}&since=${encodeURIComponent(since)}`);
  source.addEventListener("open", back);
  source.addEventListener("changed", (event) => refresh(JSON.parse(event.data).topics));
  source.addEventListener("error", lost);
}

function close() {
  source?.close();
  source = null;
  clearTimeout(waiting);
}

function back() {
  tries = 0;
  clearTimeout(away);
  away = null;
  note?.remove();
  note = null;
  document.documentElement.dataset.live = "on";
}

// The browser connects again by itself, unless the server refused: then we ask why, by fetching the page.
function lost() {
  delete document.documentElement.dataset.live;
  away ??= setTimeout(() => { note ??= toast("No answer from Soonish. This page stands still until it is back.", { tone: "warn", stays: true }); }, SILENCE);
  if (source?.readyState !== EventSource.CLOSED) return;
  close();
  waiting = setTimeout(async () => {
    if (await refresh(parts().flatMap(topicsOf))) open(); // not where it ended
  }, WAITS[Math.min(tries++, WAITS.length - 1)]);
}

// One fetch at a time; what changes meanwhile is fetched after it.
function refresh(topics) {
  for (const topic of topics) wanted.add(topic);
  fetching ??= again().finally(() => { fetching = null; });
  return fetching;
}

async function again() {
  while (wanted.size) {
    await still();
    const topics = wanted;
    wanted = new Set();
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
      if (answer.ok) show(new DOMParser().parseFromString(await answer.text(), "text/html"), topics);
      else if (answer.status < 500) return ended(answer.status);
    } catch {
      return true; // the stream tells when it is back
    }
  }
  return true;
}

function show(page, topics) {
  settle(page);
  since = page.body.dataset.liveSince ?? since;
  for (const part of parts().filter((part) => topicsOf(part).some((topic) => topics.has(topic)))) {
    const fresh = page.getElementById(part.id);
    if (fresh) patch(part, fresh);
  }
  reveal();
  run();
}

// 405: this page was the answer to a form, and cannot be fetched again.
function ended(status) {
  close();
  if (status === 401) toast("You are signed out. Open a new login link to go on.", { tone: "warn", stays: true });
  if (status === 404) toast("This is over, and not here any more.", { stays: true });
  return false;
}

// Lines do not move away under a pointer that is about to press something.
async function still() {
  while (document.querySelector("[data-live] :is(button, summary):hover") && performance.now() - moved < RESTING)
    await new Promise((resolve) => setTimeout(resolve, 250));
}

document.addEventListener("pointermove", () => { moved = performance.now(); }, { passive: true });
document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
addEventListener("pagehide", close);
addEventListener("pageshow", open);
