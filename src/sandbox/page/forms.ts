import { type Child, type Html, html } from '../../core/html.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { World } from '../world.ts';
import { choice, controlForm, field, hidden, type Option, tick } from './elements.ts';
import { renderFaultForm } from './fault-form.ts';

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

function renderReturnForm({ name, settings }: ClientStore): Html {
  const item = field('shipmentItemId', 'Shipment item id', { inputmode: 'numeric', placeholder: 'all items' });
  const quantity = field('quantity', 'Quantity', { type: 'number', min: 1, placeholder: 'all' });
  const reasons = settings.returnReasons.map(({ id, name: reason }): Option => [id, reason]);
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
