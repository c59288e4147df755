// Makes the page live: loads the changed parts once a second, and copies the command of a request. Without this script
// the page shows the same when it is loaded again.
const shown = new Map();

/** Returns whether the reader is busy in a part, so that it must not be replaced. */
function isInUse(part) {
  const selection = getSelection();
  const isSelected =
    selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode);
  return isSelected || part.contains(document.activeElement);
}

function replacePart(id, markup) {
  const part = document.getElementById(id);
  if (part === null || shown.get(id) === markup || isInUse(part)) return;
  shown.set(id, markup);
  const template = document.createElement('template');
  template.innerHTML = markup;
  for (const details of template.content.querySelectorAll('details[id]'))
    details.open = document.getElementById(details.id)?.open ?? details.open;
  part.replaceChildren(template.content);
}

async function update() {
  try {
    if (!document.hidden) {
      const answer = await fetch(`/_sandbox/page/parts${location.search}`);
      for (const [id, markup] of Object.entries(await answer.json())) replacePart(id, markup);
    }
  } catch {
    document.getElementById('clock').textContent =
      'The sandbox does not answer: the values below are old.';
    shown.delete('clock');
  }
  setTimeout(update, 1_000);
}

/** Adds a button that copies the command. If the browser does not allow that, the button selects it. */
for (const command of document.querySelectorAll('pre.copy')) {
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

if (document.getElementById('data') !== null) update();
