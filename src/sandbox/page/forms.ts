import { type Child, type Html, html } from '../../core/html.ts';
import { operations } from '../operations/all.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { World } from '../world.ts';
import { choice, controlForm, field, hidden, type Option, tick } from './elements.ts';

const shownSkus = 100;
const spans: readonly Option[] = [
  [60, 'minutes'],
  [3_600, 'hours'],
  [86_400, 'days'],
];

/** Renders the actions: forms for the controls. */
export function renderActions(world: World, store: ClientStore): Html {
  return html`
${renderAction('Advance the time', renderTimeForms(), true)}
${renderAction('Place an order', renderOrderForm(store))}
${renderAction('Ship an order', renderShipForm(store))}
${renderAction('Announce a return', renderReturnForm(store))}
${renderAction('Process a return', renderProcessForm(store))}
${renderAction('Inject a fault', renderFaultForm(world))}
${renderAction('Start over', renderResetForm(world))}`;
}

function renderAction(title: string, form: Child, isOpen = false): Html {
  return html`<details class="action"${isOpen ? html` open` : ''}><summary>${title}</summary>${form}</details>`;
}

function renderTimeForms(): Child {
  const times = field('times', 'Number', { type: 'number', min: 1, max: 576_000, value: 3, required: true });
  return [
    controlForm('advance', [
      html`<div class="buttons"><button name="seconds" value="3600">1 hour</button>`,
      html`<button name="seconds" value="86400">1 day</button></div>`,
    ]),
    controlForm('advance', [
      html`<div class="pair">${times}${choice('seconds', 'Unit', spans, '86400')}</div>`,
      html`<button>Advance</button>`,
    ]),
  ];
}

function renderOrderForm({ name, products }: ClientStore): Html {
  const skus = [...products.keys()].slice(0, shownSkus).map((sku) => html`<option value="${sku}"></option>`);
  const lines = ['any', 'none'].map((placeholder, line) => {
    const sku = field(`lines[${line}][sku]`, `SKU ${line + 1}`, { list: 'skus', placeholder });
    const quantity = field(`lines[${line}][quantity]`, 'Quantity', { type: 'number', min: 1, placeholder: 1 });
    return html`<div class="pair">${sku}${quantity}</div>`;
  });
  return controlForm('order', [
    hidden('client', name),
    html`<datalist id="skus">${skus}</datalist>`,
    field('externalOrderNumber', 'Order number', { placeholder: 'next free one', maxlength: 50 }),
    lines,
    tick('onHold', 'On hold'),
    html`<button>Place order</button>`,
  ]);
}

function renderShipForm({ name }: ClientStore): Html {
  return controlForm('ship', [
    hidden('client', name),
    field('externalOrderNumber', 'Order number', { required: true }),
    html`<button>Ship</button>`,
  ]);
}

function renderReturnForm({ name, lists }: ClientStore): Html {
  const item = field('shipmentItemId', 'Shipment item id', { inputmode: 'numeric', placeholder: 'all items' });
  const quantity = field('quantity', 'Quantity', { type: 'number', min: 1, placeholder: 'all' });
  const reasons = lists.returnReasons.map(({ id, name: reason }): Option => [id, reason]);
  return controlForm('return', [
    hidden('client', name),
    field('shipmentId', 'Shipment id', { required: true, inputmode: 'numeric' }),
    html`<div class="pair">${item}${quantity}</div>`,
    choice('reasonId', 'Reason', reasons),
    field('externalReference', 'Reference', { placeholder: 'none' }),
    html`<button>Announce</button>`,
  ]);
}

function renderProcessForm({ name }: ClientStore): Html {
  return controlForm('return/process', [
    hidden('client', name),
    field('authorizationId', 'Id of the announced return', { required: true, inputmode: 'numeric' }),
    html`<button>Process</button>`,
  ]);
}

function renderResetForm({ options }: World): Html {
  return controlForm('reset', [
    html`<p>Removes all rows, requests, findings and faults.</p>`,
    field('seed', 'Seed', { type: 'number', placeholder: options.seed }),
    field('ordersPerDay', 'Orders per day', { type: 'number', min: 0, placeholder: options.ordersPerDay }),
    html`<label class="tick"><input type="checkbox" required> I am sure</label>`,
    html`<button class="danger">Reset</button>`,
  ]);
}

const maxWaitMs = 600_000;
const patterns = ['*', 'v3.*', 'v2.*', 'oldest.*'];
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
function renderFaultForm({ clientNames }: World): Html {
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
