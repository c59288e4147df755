// Makes the page live: loads it again once a second, and calls the controls of its buttons. Without this script the
// page shows the same when it is loaded again.
const alertLine = document.querySelector('[role="alert"]');
let shown = '';

/** Returns whether the reader is busy in the live part, so that it must not be replaced. */
function isInUse(part) {
  const selection = getSelection();
  const isSelected =
    selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode);
  return isSelected || part.contains(document.activeElement);
}

function say(problem) {
  alertLine.textContent = problem;
  alertLine.hidden = problem === '';
}

function showButtons() {
  for (const button of document.querySelectorAll('[data-control]')) button.hidden = false;
}

async function update() {
  const part = document.getElementById('live');
  const answer = await fetch(location.href);
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  const next = page.getElementById('live');
  if (next.innerHTML === shown || isInUse(part)) return;
  shown = next.innerHTML;
  part.replaceWith(next);
  showButtons();
}

async function keepUpdating() {
  try {
    if (!document.hidden) await update();
    if (alertLine.dataset.away) {
      delete alertLine.dataset.away;
      say('');
    }
  } catch {
    alertLine.dataset.away = 'true';
    say('The sandbox does not answer: the values below are old.');
  }
  setTimeout(keepUpdating, 1_000);
}

/** Calls the control of a button, and shows why it is refused. */
async function callControl({ dataset: { control, body } }) {
  const answer = await fetch(`/_sandbox/${control}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  });
  const { errors = [] } = await answer.json();
  say(errors.map(({ title }) => title).join('; '));
  document.activeElement.blur();
  await update();
}

document.addEventListener('click', ({ target }) => {
  const button = target.closest('[data-control]');
  if (button !== null) callControl(button);
});

showButtons();
keepUpdating();
