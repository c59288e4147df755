// Asks for the page again every few seconds, and replaces its parts that have changed. It keeps the
// focus of the keyboard, what is open, and what a person has filled in or selected.
const { seconds } = document.currentScript.dataset;
const partSelector = '[data-live]:not([data-live] [data-live])';
const focusable = 'a, summary, button, input';
let failures = 0;

// On a narrow screen, the links to the pages are one line that scrolls.
document
  .querySelector('nav [aria-current]')
  ?.scrollIntoView({ block: 'nearest', inline: 'nearest' });

/** Returns true if replacing a part would lose what a person does in it. */
const isInUse = (part) =>
  part.querySelector('input:checked') !== null ||
  (part.contains(document.getSelection()?.anchorNode ?? null) &&
    !document.getSelection().isCollapsed);

function replacePart(part, fresh) {
  if (part.innerHTML === fresh.innerHTML || isInUse(part)) return;
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const place = focused === null ? -1 : [...part.querySelectorAll(focusable)].indexOf(focused);
  const open = [...part.querySelectorAll('details')].map((details) => details.open);

  part.innerHTML = fresh.innerHTML;

  for (const [index, details] of part.querySelectorAll('details').entries())
    details.open = open[index] === true;
  if (place >= 0) part.querySelectorAll(focusable)[place]?.focus();
}

async function refresh() {
  const answer = await fetch(location.href, { headers: { accept: 'text/html', 'x-refresh': '1' } });
  // The session has ended: the page asks for the token.
  if (answer.redirected) return location.reload();
  if (!answer.ok) throw new Error(`status ${answer.status}`);

  const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
  document.title = fresh.title;
  const freshParts = fresh.querySelectorAll(partSelector);
  for (const [index, part] of document.querySelectorAll(partSelector).entries())
    if (freshParts[index] !== undefined) replacePart(part, freshParts[index]);
}

// Old values must not look like current ones. A message appears if the server does not answer
// several times.
async function keepFresh() {
  try {
    if (!document.hidden) await refresh();
    failures = 0;
  } catch {
    failures++;
  }
  document.getElementById('stale').hidden = failures < 3;
  setTimeout(keepFresh, Number(seconds) * 1_000);
}

setTimeout(keepFresh, Number(seconds) * 1_000);
