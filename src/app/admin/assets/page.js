// Shows what the server tells of the overview, part by part, without taking the focus away from who is reading it.
const events = new EventSource(new URL('../events', document.currentScript.src));

events.onmessage = ({ data }) => {
  for (const [id, markup] of Object.entries(JSON.parse(data))) {
    const part = document.getElementById(id);
    if (part === null || part.innerHTML === markup) continue;
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const links = [...part.querySelectorAll('a')];
    const place = focused === null ? -1 : links.indexOf(focused);
    part.innerHTML = markup;
    if (place >= 0) part.querySelectorAll('a')[place]?.focus();
  }
};

// What nobody renews must not look as if it were true still. The server ends each stream now and then, and the browser
// comes back by itself: that is no news, unless it takes long.
let lost;
const tellLost = () => {
  const headline = document.getElementById('headline');
  if (headline !== null)
    headline.innerHTML = '<h1 class="bad">Not connected</h1><p>Below is how it stood; reload the page.</p>';
};

events.onopen = () => {
  clearTimeout(lost);
  lost = undefined;
};
events.onerror = () => {
  if (events.readyState === EventSource.CLOSED) tellLost();
  else lost ??= setTimeout(tellLost, 10_000);
};
