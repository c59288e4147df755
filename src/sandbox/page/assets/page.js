// Makes the page live: loads the changed parts once a second, sends forms without leaving the page, shows a request in a
// dialog, and copies its command. Without this script the page shows the same, and forms load it again.
const message = document.getElementById('message');
const shown = new Map();
let isLive = message !== null;

/** Returns whether the reader is busy in a part, so that it must not be replaced. */
function isInUse(part) {
  const selection = getSelection();
  if (selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode)) return true;
  return part.contains(document.activeElement) && document.activeElement.matches('input, select');
}

function replacePart(id, markup) {
  const part = document.getElementById(id);
  if (part === null || shown.get(id) === markup || isInUse(part)) return;
  shown.set(id, markup);
  const template = document.createElement('template');
  template.innerHTML = markup;
  for (const details of template.content.querySelectorAll('details[id]'))
    details.open = document.getElementById(details.id)?.open ?? details.open;
  // Rows that have not changed stay the same elements, so that the focus stays in them.
  const focused = document.activeElement;
  for (const row of template.content.querySelectorAll('[id]')) {
    const old = row.matches('tr, li') ? document.getElementById(row.id) : null;
    if (old !== null && part.contains(old) && old.outerHTML === row.outerHTML) row.replaceWith(old);
  }
  part.replaceChildren(template.content);
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

async function loadParts() {
  const answer = await fetch(`/_sandbox/page/parts${location.search}`);
  if (!answer.ok) throw new Error(`The sandbox answers ${answer.status}`);
  for (const [id, markup] of Object.entries(await answer.json())) replacePart(id, markup);
}

let isConnected = true;
async function update() {
  if (isLive && !document.hidden) {
    try {
      await loadParts();
      if (!isConnected) say('', false);
      isConnected = true;
    } catch {
      isConnected = false;
      say('The sandbox does not answer: the values below are old.', true);
    }
  }
  setTimeout(update, 1_000);
}

function say(text, isBad) {
  message.textContent = text;
  message.classList.toggle('bad', isBad);
}

/** Sends a form to a control. The answer is the page that says what was done, or a page that says why not. */
async function send(form, submitter) {
  const body = new URLSearchParams(new FormData(form, submitter));
  const answer = await fetch(form.action, { method: 'POST', body, headers: { accept: 'text/html' } });
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  if (!answer.ok) return say(page.getElementById('refused')?.textContent ?? `Refused: ${answer.status}`, true);
  say(page.getElementById('message')?.textContent ?? 'Done.', false);
  history.replaceState(null, '', answer.url);
  const search = document.querySelector('input[name="q"]');
  if (search !== null) search.value = new URL(answer.url).searchParams.get('q') ?? '';
  if (form.matches('.action form')) form.reset();
  await loadParts();
}

async function showExchange(link) {
  const answer = await fetch(link.href);
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  const exchange = page.getElementById('exchange');
  if (exchange === null) return say('The log does not hold this request any more.', true);
  const dialog = document.createElement('dialog');
  dialog.setAttribute('aria-label', 'Request');
  const close = document.createElement('button');
  close.textContent = 'Close';
  close.onclick = () => dialog.close();
  dialog.append(close, exchange);
  addCopyButtons(dialog);
  dialog.onclose = () => dialog.remove();
  document.body.append(dialog);
  dialog.showModal();
}

/** Adds a button that copies the command. If the browser does not allow that, the button selects it. */
function addCopyButtons(place) {
  for (const command of place.querySelectorAll('pre.copy')) {
    const button = document.createElement('button');
    button.textContent = 'Copy as curl';
    button.onclick = async () => {
      try {
        await navigator.clipboard.writeText(command.textContent);
        button.textContent = 'Copied';
      } catch {
        getSelection()?.selectAllChildren(command);
        button.textContent = 'Selected: copy it with the keyboard';
      }
    };
    command.before(button);
  }
}

addEventListener('submit', (event) => {
  if (event.target.method !== 'post') return;
  event.preventDefault();
  send(event.target, event.submitter).catch(() => say('The sandbox does not answer.', true));
});

addEventListener('click', (event) => {
  const link = event.target.closest?.('a.exchange');
  if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  showExchange(link).catch(() => say('The sandbox does not answer.', true));
});

addCopyButtons(document);
const bar = document.querySelector('.bar');
if (bar !== null) {
  const pause = document.createElement('button');
  pause.type = 'button';
  pause.className = 'quiet';
  pause.textContent = 'Pause';
  pause.onclick = () => {
    isLive = !isLive;
    pause.textContent = isLive ? 'Pause' : 'Continue';
  };
  bar.append(pause);
}
if (message !== null) update();
