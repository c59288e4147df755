import { type Child, type Html, html } from '../../core/html.ts';
import type { World } from '../world.ts';
import { renderData } from './data.ts';
import { field, hidden } from './elements.ts';
import { renderFaults } from './fault-form.ts';
import { renderActions } from './forms.ts';
import { renderFrame } from './frame.ts';
import { findMessage } from './outcome.ts';
import { renderFindings, renderLog, renderLogFilter } from './requests.ts';
import { renderResults } from './results.ts';
import { type View, writeAddress } from './view.ts';

/** Renders the parts of the page that change by themselves, by the id of their element. */
export function renderParts(world: World, view: View): Record<string, Child> {
  const client = world.findClient(view.client);
  const store = client?.simulation.store;
  return {
    clock: renderClock(world),
    results: store === undefined ? '' : renderResults(store, view),
    'active-faults': renderFaults(world),
    log: renderLog(world, view),
    'all-findings': renderFindings(world),
    data: store === undefined ? '' : renderData(store),
  };
}

function renderClock({ clock, options: { speed } }: World): Html {
  const now = new Date(clock.nowMs()).toISOString();
  const pace = speed === 0 ? 'stopped' : `${speed} virtual seconds per second`;
  return html`Virtual time <time datetime="${now}">${now.slice(0, 19).replace('T', ' ')}</time> UTC, ${pace}`;
}

/** Renders the page. */
export function renderPage(world: World, view: View): string {
  const parts = renderParts(world, view);
  const part = (id: string) => html`<div id="${id}" class="part">${parts[id]}</div>`;
  const store = world.findClient(view.client)?.simulation.store;
  const links = world.clientNames.map((name) => {
    const isHere = name === view.client;
    return html`<li><a href="${writeAddress({ client: name })}"${isHere ? html` aria-current="page"` : ''}>${name}</a></li>`;
  });
  const header = html`<nav aria-label="Clients"><ul>${links}</ul></nav>
<div id="clock">${parts.clock}</div><a href="/openapi.json">OpenAPI document</a>`;
  return renderFrame(
    `Sandbox: ${view.client}`,
    header,
    html`<h1>Sandbox of the warehouse fulfilment service</h1>
<p id="message" class="said" role="status">${findMessage(view.said)}</p>
<form class="filter" role="search" method="get" action="/">${hidden('client', view.client)}
${field('q', 'Order number, shipment id, SKU, return or inbound reference', { type: 'search', value: view.q })} <button>Search</button></form>
${part('results')}
<div class="columns"><section aria-label="Actions"><h2>Actions</h2>
${store === undefined ? '' : renderActions(world, store)}<h3>Active faults</h3>${part('active-faults')}</section>
<div><div class="bar">${renderLogFilter(view)}</div>${part('log')}${part('all-findings')}${part('data')}</div></div>`,
  );
}
