"""What a page must be for everybody: named, labelled, readable, reachable by keyboard, and no wider than the screen.

`complaints` looks at the page as the browser has laid it out. The rules are ours: those of WCAG 2.2 AA that a program
can judge.
"""

from typing import Any

from playwright.async_api import Page

MOST_STOPS = 150

_LOOK = r"""
() => {
  const found = [];
  const say = (what, one) => found.push(`${what}: ${one?.id ?? ''} ${one?.outerHTML.slice(0, 120) ?? ''}`);
  const all = (query) => [...document.querySelectorAll(query)];
  const seen = (one) => one.checkVisibility({ visibilityProperty: true }) && one.getBoundingClientRect().width > 0;
  const words = (one) => (one?.textContent ?? '').trim();
  const byId = (ids) => ids.split(' ').map((id) => document.getElementById(id));

  // names
  const name = (one) => one.getAttribute('aria-label')
    || (one.getAttribute('aria-labelledby') && byId(one.getAttribute('aria-labelledby')).map(words).join(' '))
    || [...(one.labels ?? [])].map(words).join(' ')
    || (['INPUT', 'SELECT', 'TEXTAREA'].includes(one.nodeName) ? '' : words(one));
  for (const one of all('a[href], button, input:not([type=hidden]), select, textarea, summary'))
    if (!name(one)) say('a control without a name', one);
  for (const one of all('nav, [role=search], dialog'))
    if (!one.getAttribute('aria-label') && !one.getAttribute('aria-labelledby')) say('a part without a name', one);
  for (const one of all('img:not([alt]), svg:not([aria-hidden]):not([role=img])')) say('a picture without words', one);

  // structure
  if (!document.documentElement.lang) say('no language');
  if (!document.title.trim()) say('no title');
  if (all('h1').filter(seen).length !== 1) say(`${all('h1').length} headings of the first level`);
  if (all('main').length !== 1) say('not one main part');
  let level = 0;
  for (const one of all('main :is(h1, h2, h3, h4)')) {
    const next = Number(one.nodeName[1]);
    if (next > level + 1) say('a level of headings is left out', one);
    level = next;
  }
  const ids = all('[id]').map((one) => one.id);
  for (const id of new Set(ids.filter((id, n) => ids.indexOf(id) !== n))) say(`the id ${id} twice`);
  for (const attribute of ['for', 'aria-describedby', 'aria-labelledby', 'list', 'form', 'popovertarget'])
    for (const one of all(`[${attribute}]`))
      if (byId(one.getAttribute(attribute)).includes(null)) say(`${attribute} names nothing`, one);
  for (const one of all('a[href^="#"]:not([href="#"])'))
    if (!document.getElementById(one.hash.slice(1))) say('a link to nothing', one);
  for (const one of all('table')) if (!one.querySelector('th[scope]')) say('a table without headings', one);
  for (const one of all('[style]:not([style=""]), script:not([src]), style')) say('what the policy forbids', one);
  for (const one of all('[tabindex]')) if (one.tabIndex > 0) say('an order of its own', one);

  // room
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) say(`it scrolls sideways by ${wide} pixels`);
  for (const one of all('button, summary, select, input:not([type=hidden], [type=checkbox])').filter(seen)) {
    const box = one.getBoundingClientRect();
    if (box.width < 24 || box.height < 24) say('too small to press', one);
  }

  // colours
  const pen = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a), 1];
  const behind = (one) => {
    if (!one) return [255, 255, 255, 1];
    const mine = rgba(getComputedStyle(one).backgroundColor);
    return mine[3] === 1 ? mine : over(mine, behind(one.parentElement));
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const judge = (one, colour, least, what) => {
    const ground = behind(one);
    const ratio = contrast(over(rgba(colour), ground), ground);
    if (ratio < least) say(`${what} has a contrast of ${ratio.toFixed(2)}, not ${least}`, one);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const one = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !seen(one) || ['SCRIPT', 'OPTION', 'TITLE'].includes(one.nodeName)) continue;
    const style = getComputedStyle(one);
    const big = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    judge(one, style.color, big ? 3 : 4.5, `"${texts.currentNode.data.trim().slice(0, 30)}"`);
  }
  for (const one of all('input:not([type=hidden], [type=checkbox]), select, textarea').filter(seen)) {
    judge(one, getComputedStyle(one).color, 4.5, 'what is typed');
    judge(one.parentElement, getComputedStyle(one).borderTopColor, 3, 'the edge of a field');
    if (one.placeholder) judge(one, getComputedStyle(one, '::placeholder').color, 4.5, 'a placeholder');
  }
  for (const one of all('.shape').filter(seen)) judge(one.parentElement, getComputedStyle(one).color, 3, 'a shape');
  return found;
}
"""

_STOPS = r"""
() => {
  const kinds = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
  const tabbable = [...document.querySelectorAll(kinds)]
    .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled);
  // No attribute: those of a live part are brought in line with what the server says.
  tabbable.forEach((one, n) => { one.stop = String(n); });
  document.activeElement?.blur();
  return tabbable.length;
}
"""

_HERE = r"""
() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  const marked = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  return { stop: one.stop ?? null, what: one.outerHTML.slice(0, 100), marked };
}
"""


async def complaints(page: Page) -> list[str]:
    """What keeps somebody from using the page as it is now."""
    found: list[str] = await page.evaluate(_LOOK)
    return found


async def complaints_of_keys(page: Page) -> list[str]:
    """Go through the page by Tab: to each control, in the order in which they stand, and each shows it."""
    count = min(await page.evaluate(_STOPS), MOST_STOPS)
    found, visited = [], []
    for _ in range(count):
        await page.keyboard.press("Tab")
        here: dict[str, Any] = await page.evaluate(_HERE)
        visited.append(here["stop"])
        if not here["marked"]:
            found.append(f"the focus cannot be seen: {here['what']}")
    if visited != [str(n) for n in range(count)]:
        found.append(f"the focus goes {visited}, not from 0 to {count - 1}")
    return found
