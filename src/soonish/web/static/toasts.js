// What was done, and what will happen next: said once, and gone by itself when there was time to read it.
const LONGEST = 20000;
const place = document.getElementById("toasts");

export function toast(words, { tone = "ok", stays = false } = {}) {
  const one = document.createElement("p");
  one.className = `toast ${tone}`;
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  shape.setAttribute("class", "shape");
  shape.setAttribute("aria-hidden", "true");
  shape.append(document.createElementNS("http://www.w3.org/2000/svg", "use"));
  shape.firstChild.setAttribute("href", `#s-${tone}`);
  const text = document.createElement("span");
  text.textContent = words;
  one.append(shape, text);
  place.append(one);
  if (!stays) leave(one);
  return one;
}

// As long as it takes to read, and not while somebody points at it.
function leave(one) {
  const wait = Math.min(LONGEST, 4000 + one.textContent.length * 60);
  setTimeout(() => (one.matches(":hover") ? leave(one) : one.remove()), wait);
}

for (const one of place.querySelectorAll(".toast")) leave(one);
