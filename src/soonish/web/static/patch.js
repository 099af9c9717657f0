// Make one element like another, changing only what differs: elements stay the same, and with them focus, what was
// typed, and what is open. Children that have a data-key are known again by it wherever they stand.
const KEPT = new Set(["open", "data-sent", "hidden"]); // the reader's, not the server's

export function patch(old, fresh) {
  const focused = document.activeElement;
  children(old, fresh);
  attributes(old, fresh);
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
  else if (!focused?.isConnected) stay(old);
}

// What had the focus is gone: the next key still starts from here, not from the top of the page.
function stay(part) {
  if (!part.hasAttribute("tabindex")) part.setAttribute("tabindex", "-1");
  part.focus({ preventScroll: true });
}

const keyOf = (node) => node.dataset?.key;

function alike(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh) && (old.id || "") === (fresh.id || "");
}

function one(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
  } else if (!old.isEqualNode(fresh)) {
    attributes(old, fresh);
    children(old, fresh);
  }
}

function attributes(old, fresh) {
  for (const { name } of [...old.attributes])
    if (!KEPT.has(name) && name !== "tabindex" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes)
    if (!KEPT.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
}

function children(old, fresh) {
  const keys = new Set([...fresh.children].map(keyOf));
  const known = new Map();
  for (const child of [...old.children]) {
    const key = keyOf(child);
    if (key === undefined) continue;
    if (keys.has(key)) known.set(key, child);
    else child.remove();
  }
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const mine = known.get(keyOf(wanted)) ?? (place && alike(place, wanted) ? place : null);
    if (!mine) insert(old, wanted, place);
    else {
      if (mine === place) place = place.nextSibling;
      else old.insertBefore(mine, place);
      one(mine, wanted);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function insert(old, wanted, place) {
  const made = document.importNode(wanted, true);
  if (keyOf(made)) {
    made.classList.add("fresh");
    made.addEventListener("animationend", () => made.classList.remove("fresh"), { once: true });
  }
  old.insertBefore(made, place);
}
