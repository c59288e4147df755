// Replaces the parts of the page that the server reports as changed, and keeps the focus of the keyboard
// and what is open.
const events = new EventSource(new URL('../events', document.currentScript.src));

events.onmessage = ({ data }) => {
  for (const [id, markup] of Object.entries(JSON.parse(data))) {
    const part = document.getElementById(id);
    if (part === null || part.innerHTML === markup) continue;
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const focusable = 'a, summary';
    const place = focused === null ? -1 : [...part.querySelectorAll(focusable)].indexOf(focused);
    const open = [...part.querySelectorAll('details')].map((details) => details.open);
    part.innerHTML = markup;
    for (const [index, details] of part.querySelectorAll('details').entries())
      details.open = open[index] === true;
    if (place >= 0) part.querySelectorAll(focusable)[place]?.focus();
  }
};

// Old values must not look like current ones. The server ends each stream after some minutes, and the browser connects
// again. A message appears only if that takes long.
let disconnected;
const showDisconnected = () => {
  const headline = document.getElementById('headline');
  if (headline !== null)
    headline.innerHTML =
      '<h1 class="bad">Not connected</h1><p>The values below are old. Reload the page.</p>';
};

events.onopen = () => {
  clearTimeout(disconnected);
  disconnected = undefined;
};
events.onerror = () => {
  if (events.readyState === EventSource.CLOSED) showDisconnected();
  else disconnected ??= setTimeout(showDisconnected, 10_000);
};
