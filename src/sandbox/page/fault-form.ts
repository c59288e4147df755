import { type Html, html } from '../../core/html.ts';
import { operations } from '../operations/all.ts';
import type { World } from '../world.ts';
import { choice, controlForm, field, hidden, type Option, tick } from './elements.ts';

const maxWaitMs = 600_000;
const patterns = ['*', 'v3.*', 'v2.*', 'oldest.*'];
/** Effects without a value. */
const tickedEffects: readonly Option[] = [
  ['noAnswer', 'no answer'],
  ['reset', 'connection breaks'],
  ['afterEffect', 'carried out first'],
  ['truncate', 'half a body'],
  ['invalidJson', 'broken JSON'],
  ['expireTokens', 'tokens end'],
  ['duplicateRow', 'first row twice'],
  ['reverseRows', 'rows backwards'],
  ['repeatNext', 'next page is the same'],
];

/** Renders the form that injects a fault. It has the effects that need at most one value. */
export function renderFaultForm({ clientNames }: World): Html {
  const toOption = (name: string): Option => [name, name];
  const number = (min: number, max: number) => ({ type: 'number', min, max, placeholder: 'none' });
  return controlForm('faults', [
    choice('operation', 'Operation', [...patterns, ...operations.map(({ name }) => name)].map(toOption)),
    choice('client', 'Client', [['', 'all'], ...clientNames.map(toOption)]),
    pair(
      field('count', 'Times', { type: 'number', min: 1, value: 1 }),
      field('probability', 'Probability', { type: 'number', min: 0, max: 1, step: 0.01, placeholder: 1 }),
    ),
    pair(
      field('effect[status]', 'Status', number(300, 599)),
      field('effect[retryAfter]', 'Retry-After', { placeholder: 'none' }),
    ),
    pair(
      field('effect[delayMs]', 'Delay (ms)', number(1, maxWaitMs)),
      field('effect[lagMs]', 'Lag of lists (ms)', number(1, maxWaitMs)),
    ),
    html`<fieldset><legend>Also</legend>${tickedEffects.map(([name, text]) => tick(`effect[${name}]`, text))}</fieldset>`,
    html`<p class="none">POST /_sandbox/faults knows more effects.</p><button>Inject</button>`,
  ]);
}

const pair = (left: Html, right: Html): Html => html`<div class="pair">${left}${right}</div>`;

/** Renders the active faults, each with a button to remove it. */
export function renderFaults({ faults }: World): Html {
  const rows = faults.list().map(({ number, operation, client, count, hits, effect }) => {
    const whose = client === undefined ? '' : ` for ${client}`;
    const spent = `${hits}${count === undefined ? '' : ` of ${count}`} hits`;
    const remove = controlForm('faults/remove', [
      hidden('number', number),
      html`<button class="small">Remove</button>`,
    ]);
    return html`<li id="fault-${number}"><div><b>${operation}</b>${whose}: <code>${JSON.stringify(effect)}</code>
<span class="none">${spent}</span></div>${remove}</li>`;
  });
  return rows.length === 0 ? html`<p class="none">No fault is active.</p>` : html`<ul class="list">${rows}</ul>`;
}
