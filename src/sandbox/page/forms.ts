import { type Child, type Html, html } from '../../core/html.ts';
import { operations } from '../operations/all.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { World } from '../world.ts';
import { controlForm, field, hidden } from './elements.ts';

const shownSkus = 100;

/** Renders the actions: forms for the controls that no row of a list has a button for. */
export function renderActions(world: World, store: ClientStore): Html {
  return html`
${renderAction('Advance the time', renderTimeForm(), true)}
${renderAction('Place an order', renderOrderForm(store))}
${renderAction('Inject a fault', renderFaultForm(world))}
${renderAction('Start over', renderResetForm(world))}`;
}

function renderAction(title: string, form: Child, isOpen = false): Html {
  const open = isOpen ? html` open` : '';
  return html`<details class="action"${open}><summary>${title}</summary>${form}</details>`;
}

function renderTimeForm(): Html {
  return controlForm('advance', [
    field('times', 'How many', { type: 'number', min: 1, value: 1, required: true }),
    html`<div class="buttons"><button name="seconds" value="60">Minutes</button>`,
    html`<button name="seconds" value="3600">Hours</button>`,
    html`<button name="seconds" value="86400">Days</button></div>`,
  ]);
}

function renderOrderForm({ name, products }: ClientStore): Html {
  const skus = [...products.keys()]
    .slice(0, shownSkus)
    .map((sku) => html`<option value="${sku}"></option>`);
  return controlForm('order', [
    hidden('client', name),
    html`<datalist id="skus">${skus}</datalist>`,
    field('externalOrderNumber', 'Order number', { placeholder: 'next free one', maxlength: 50 }),
    field('lines[0][sku]', 'SKU', { list: 'skus', placeholder: 'any' }),
    field('lines[0][quantity]', 'Quantity', { type: 'number', min: 1, placeholder: 1 }),
    renderTick('onHold', 'On hold'),
    html`<button>Place order</button>`,
  ]);
}

const renderTick = (name: string, label: string): Html =>
  html`<label class="tick"><input type="checkbox" name="${name}" value="true"> ${label}</label>`;

function renderResetForm({ options }: World): Html {
  return controlForm('reset', [
    html`<p>Removes all rows, requests, findings and faults.</p>`,
    field('seed', 'Seed', { type: 'number', placeholder: options.seed }),
    field('ordersPerDay', 'Orders per day', {
      type: 'number',
      min: 0,
      placeholder: options.ordersPerDay,
    }),
    html`<label class="tick"><input type="checkbox" required> I am sure</label>`,
    html`<button class="danger">Reset</button>`,
  ]);
}

const patterns = ['*', 'v3.*', 'v2.*', 'oldest.*'];
const tickedEffects = [
  'noAnswer',
  'reset',
  'afterEffect',
  'truncate',
  'invalidJson',
  'expireTokens',
] as const;

/** Renders the form that injects a fault. It has the most usual effects; the control knows more. */
function renderFaultForm({ clientNames }: World): Html {
  const names = [...patterns, ...operations.map(({ name }) => name)];
  const toOption = (name: string) => html`<option>${name}</option>`;
  const clients = [html`<option value="">all</option>`, ...clientNames.map(toOption)];
  const ticks = tickedEffects.map((name) => renderTick(`effect[${name}]`, name));
  return controlForm('faults', [
    html`<label>Operation <select name="operation">${names.map(toOption)}</select></label>`,
    html`<label>Client <select name="client">${clients}</select></label>`,
    field('count', 'Times', { type: 'number', min: 1, value: 1 }),
    field('effect[status]', 'Status', { type: 'number', min: 300, max: 599, placeholder: 'none' }),
    field('effect[retryAfter]', 'Retry-After', { placeholder: 'none' }),
    field('effect[delayMs]', 'Delay (ms)', { type: 'number', min: 1, placeholder: 'none' }),
    html`<fieldset><legend>Also</legend>${ticks}</fieldset>`,
    html`<button>Inject</button>`,
  ]);
}

/** Renders the active faults, each with a button to remove it. */
export function renderFaults({ faults }: World): Html {
  const rows = faults.list().map(({ number, operation, client, count, hits, effect }) => {
    const whose = client === undefined ? '' : ` for ${client}`;
    const spent = `${hits}${count === undefined ? '' : ` of ${count}`} hits`;
    const remove = controlForm('faults/remove', [
      hidden('number', number),
      html`<button class="small">Remove</button>`,
    ]);
    return html`<li><div><b>${operation}</b>${whose}: <code>${JSON.stringify(effect)}</code>
<span class="none">${spent}</span></div>${remove}</li>`;
  });
  return rows.length === 0
    ? html`<p class="none">No fault is active.</p>`
    : html`<ul class="list">${rows}</ul>`;
}
