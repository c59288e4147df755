/**
 * The page of the sandbox: the orders of a client, and the requests, findings and faults of all. It
 * only reads. Its script loads it again, and its buttons call the controls.
 */

import { readFileSync } from 'node:fs';
import type { FastifyContextConfig, FastifyInstance } from 'fastify';
import { z } from 'zod';
import { badge, type Child, type Html, html, renderTable } from '../../core/html.ts';
import { sandboxAssetsFolder, styleFolder } from '../../core/installation.ts';
import type { LoggedRequest } from '../request-log.ts';
import { isFulfilled } from '../rules/orders.ts';
import type { Client } from '../store/client.ts';
import type { Order } from '../store/model.ts';
import type { World } from '../world.ts';

const contentPolicy =
  "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; " +
  "base-uri 'none'; frame-ancestors 'none'";
const shownRows = 20;

/** Adds the page `/`, its style and its script. */
export function addPageRoutes(
  app: FastifyInstance,
  world: World,
  config: FastifyContextConfig,
): void {
  const headers = {
    'content-security-policy': contentPolicy,
    'content-type': 'text/html; charset=utf-8',
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
  };
  app.get('/', { config }, async ({ query }, reply) => {
    const { client } = z.object({ client: z.string().catch('') }).parse(query);
    return reply.headers(headers).send(renderMain(world, client).text);
  });

  const addFile = (name: string, folder: URL, type: string) => {
    const text = readFileSync(new URL(name, folder), 'utf8');
    app.get(`/_sandbox/${name}`, { config }, async (_request, reply) =>
      reply.type(type).send(text),
    );
  };
  addFile('page.css', styleFolder, 'text/css; charset=utf-8');
  addFile('page.js', sandboxAssetsFolder, 'text/javascript; charset=utf-8');
}

/** Renders the page with the orders of a client: of the first one if none has this name. */
function renderMain(world: World, wanted: string): Html {
  const names = world.clientNames;
  const shown = names.includes(wanted) ? wanted : (names[0] ?? '');
  const links = names.map((name) => {
    const current = name === shown && html` aria-current="page"`;
    return html`<li><a href="/?client=${name}"${current}>${name}</a></li>`;
  });
  const time = new Date(world.clock.nowMs()).toISOString().slice(0, 19).replace('T', ' ');

  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sandbox: ${shown}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/_sandbox/page.css">
<script src="/_sandbox/page.js" defer></script>
</head>
<body class="sandbox">
<header><a class="name" href="/">Sandbox</a><nav aria-label="Clients"><ul>${links}</ul></nav>
<a href="/openapi.json">OpenAPI</a></header>
<main id="main">
<h1>Sandbox of the warehouse fulfilment service</h1>
<p class="why" role="alert" hidden></p>
<div id="live"><p id="clock">Virtual time ${time} UTC, ${world.options.speed} times as
fast as real time.</p>
<p>${renderButton('advance', { seconds: 3_600 }, 'Advance an hour')}
${renderButton('advance', { seconds: 86_400 }, 'Advance a day')}</p>
${renderOrders(world.requireClient(shown))}${renderReports(world)}
</div>
</main>
</body>
</html>
`;
}

/** Renders a button that calls a control. The script shows it. */
const renderButton = (control: string, body: object, label: string): Html =>
  html`<button class="small" hidden data-control="${control}"
data-body="${JSON.stringify(body)}">${label}</button>`;

const renderList = (title: string, headings: readonly string[], rows: readonly Child[][]): Html =>
  html`<section id="${title.toLowerCase()}"><h2>${title}</h2>${
    rows.length === 0 ? html`<p class="none">None.</p>` : renderTable(html``, headings, rows)
  }</section>`;

function renderOrders(client: Client): Html {
  const rows = client.orders.latest(shownRows).map((order) => {
    const { externalOrderNumber, id, orderedOn, items } = order;
    const goods = items.map(({ quantity, sku }) => `${quantity} x ${sku}`).join(', ');
    const shipments = client.listShipments(order);
    const parcels = shipments.map((shipment) => `${shipment.id} ${shipment.status}`).join(', ');

    const isOver = isFulfilled(order) && shipments.every(({ status }) => status === 'SHIPPED');
    const ship = renderButton('ship', { client: client.name, externalOrderNumber }, 'Ship');
    const state = isOver ? describeEnd(shipments.length) : [describeOpen(order), ' ', ship];
    return [externalOrderNumber, id, orderedOn, goods, parcels, state];
  });

  return renderList('Orders', ['number', 'id', 'ordered on', 'items', 'shipments', 'state'], rows);
}

const describeEnd = (shipments: number): Html =>
  shipments > 0 ? badge('good', 'shipped') : badge('note', 'cancelled');

function describeOpen({ notValid, onHold }: Order): Html {
  if (notValid) return badge('bad', 'Not Valid: no house number');
  return onHold ? badge('warn', 'on hold') : badge('note', 'open');
}

/** Renders the latest requests, the latest findings, and all faults. */
function renderReports({ log, findings, faults }: World): Html {
  const requests = log
    .latest(shownRows)
    .map((entry) => [
      new Date(entry.atMs).toISOString().slice(11, 23),
      entry.client,
      html`<a href="/_sandbox/requests/${entry.place}">${writeRequest(entry).slice(0, 160)}</a>`,
      entry.operation ?? 'unknown route',
      renderStatus(entry),
      entry.durationMs,
    ]);
  const found = findings
    .list()
    .slice(0, shownRows)
    .map(({ client, operation, code, member, advice, count }) => {
      return [client, operation, `${code} ${member}`, advice, count];
    });
  const rules = faults.rules.map(({ number, hits, seen: _, effect, ...rule }) => {
    const remove = renderButton('faults/remove', { number }, 'Remove');
    return [number, JSON.stringify(rule), JSON.stringify(effect), hits, remove];
  });

  return html`${[
    renderList('Requests', ['UTC', 'client', 'request', 'operation', 'status', 'ms'], requests),
    renderList('Findings', ['client', 'operation', 'finding', 'advice', 'count'], found),
    renderList('Faults', ['number', 'requests', 'effect', 'hits', 'action'], rules),
  ]}`;
}

/** Writes the method and the address of a request, the latter decoded if it can be. */
function writeRequest({ method, path, query }: LoggedRequest): string {
  const address = query === '' ? path : `${path}?${query}`;
  try {
    return `${method} ${decodeURIComponent(address.replaceAll('+', ' '))}`;
  } catch {
    return `${method} ${address}`;
  }
}

function renderStatus({ status, faulty }: LoggedRequest): Html {
  const text = `${status ?? 'no answer'}${faulty ? ' (fault)' : ''}`;
  return badge(status !== null && status < 300 ? 'good' : 'warn', text);
}
