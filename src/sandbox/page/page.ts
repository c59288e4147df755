/**
 * The page of the sandbox: the orders of a client, and the requests, findings and faults of all. It
 * only reads. Its script loads it again, and its buttons call the controls.
 */

import { readFileSync } from 'node:fs';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { badge, type Child, type Html, html, renderTable } from '../../core/html.ts';
import { sandboxAssetsFolder, styleFolder } from '../../core/installation.ts';
import type { Exchange, LoggedRequest } from '../request-log.ts';
import { isFulfilled } from '../rules/orders.ts';
import type { Client } from '../store/client.ts';
import type { Order } from '../store/model.ts';
import type { World } from '../world.ts';

const contentPolicy =
  "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; " +
  "form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const shownRows = 20;
/** Number of the newest orders that a search looks at. */
const searchedOrders = 5_000;

/** Adds the page `/`, the page of a request, their style and their script. */
export function addPageRoutes(app: FastifyInstance, world: World): void {
  const config = { operation: null };
  app.get('/', { config }, async ({ query }, reply) => sendPage(reply, renderMain(world, query)));
  app.get('/_sandbox/page/requests/:place', { config }, async (request, reply) =>
    sendPage(reply, renderExchange(world, request)),
  );

  const addFile = (name: string, folder: URL, type: string) => {
    const text = readFileSync(new URL(name, folder), 'utf8');
    app.get(`/_sandbox/${name}`, { config }, async (_request, reply) =>
      reply.type(type).send(text),
    );
  };
  addFile('page.css', styleFolder, 'text/css; charset=utf-8');
  addFile('page.js', sandboxAssetsFolder, 'text/javascript; charset=utf-8');
}

function sendPage(reply: FastifyReply, { text }: Html): FastifyReply {
  const headers = {
    'content-security-policy': contentPolicy,
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
  };
  return reply.headers(headers).type('text/html; charset=utf-8').send(text);
}

function renderFrame(title: string, header: Child, body: Child): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/_sandbox/page.css">
<script src="/_sandbox/page.js" defer></script>
</head>
<body class="sandbox">
<header><a class="name" href="/">Sandbox</a>${header}</header>
<main id="main">
${body}
</main>
</body>
</html>
`;
}

const viewSchema = z.object({ client: z.string().catch(''), q: z.string().trim().catch('') });

/** Renders the page with the orders of `client`. `q` shows only what has this text. */
function renderMain(world: World, query: unknown): Html {
  const { client: wanted, q } = viewSchema.parse(query);
  const client = world.clientNames.find((name) => name === wanted) ?? world.clientNames[0] ?? '';
  const shown = world.requireClient(client);
  const links = world.clientNames.map((name) => {
    const current = name === client ? html` aria-current="page"` : '';
    return html`<li><a href="/?client=${name}"${current}>${name}</a></li>`;
  });
  const { speed } = world.options;

  return renderFrame(
    `Sandbox: ${client}`,
    html`<nav aria-label="Clients"><ul>${links}</ul></nav><a href="/openapi.json">OpenAPI</a>`,
    html`<h1>Sandbox of the warehouse fulfilment service</h1>
<form class="filter" role="search"><input type="hidden" name="client" value="${client}">
<label>Text in an order or a request <input type="search" name="q" value="${q}"></label>
<button>Search</button></form>
<p class="why" role="alert" hidden></p>
<div id="live"><p id="clock">Virtual time ${writeMoment(world.clock.nowMs())} UTC, ${speed} times as
fast as real time. ${renderButton('advance', { seconds: 3_600 }, 'Advance an hour')}
${renderButton('advance', { seconds: 86_400 }, 'Advance a day')}</p>
${renderOrders(shown, q)}${renderRequests(world, q)}${renderFindings(world)}${renderFaults(world)}
</div>`,
  );
}

/** Renders a button that calls a control. The script shows it. */
const renderButton = (control: string, body: object, label: string): Html =>
  html`<button class="small" hidden data-control="${control}"
data-body="${JSON.stringify(body)}">${label}</button>`;

const renderList = (title: string, headings: readonly string[], rows: readonly Child[][]): Html =>
  html`<section id="${title.toLowerCase()}"><h2>${title}</h2>${
    rows.length === 0 ? html`<p class="none">None.</p>` : renderTable(html``, headings, rows)
  }</section>`;

const writeMoment = (ms: number): string =>
  new Date(ms).toISOString().slice(0, 19).replace('T', ' ');

/** Returns a test for texts that contain what the reader searches for, in any case. */
const createSearch =
  (q: string) =>
  (...texts: readonly unknown[]): boolean =>
    texts.join(' ').toLowerCase().includes(q.toLowerCase());

const writeGoods = (items: readonly { readonly quantity: number; readonly sku: string }[]) =>
  items.map(({ quantity, sku }) => `${quantity} x ${sku}`).join(', ');

function renderOrders(client: Client, q: string): Html {
  const hasText = createSearch(q);
  const rows = client.orders
    .latest(searchedOrders)
    .map((order) => renderOrder(client, order))
    .filter((texts) => hasText(...texts.slice(0, 5)))
    .slice(0, shownRows);

  return renderList('Orders', ['number', 'id', 'ordered on', 'items', 'shipments', 'state'], rows);
}

function renderOrder(client: Client, order: Order): Child[] {
  const { externalOrderNumber, id, orderedOn, items } = order;
  const shipments = client.listShipments(order);
  const isOver = isFulfilled(order) && shipments.every(({ status }) => status === 'SHIPPED');
  const body = { client: client.name, externalOrderNumber };
  const end = shipments.length > 0 ? badge('good', 'shipped') : badge('note', 'cancelled');
  const state = isOver ? end : [describeOpen(order), ' ', renderButton('ship', body, 'Ship')];
  const parcels = shipments.map((shipment) => `${shipment.id} ${shipment.status}`).join(', ');

  return [externalOrderNumber, id, orderedOn, writeGoods(items), parcels, state];
}

function describeOpen({ notValid, onHold }: Order): Html {
  if (notValid) return badge('bad', 'Not Valid: no house number');
  return onHold ? badge('warn', 'on hold') : badge('note', 'open');
}

function renderRequests({ log }: World, q: string): Html {
  const hasText = createSearch(q);
  const rows = log
    .findLatest(shownRows, (entry, bodies) =>
      hasText(
        writeRequest(entry),
        entry.client,
        entry.operation,
        bodies?.requestBody,
        bodies?.answerBody,
      ),
    )
    .map((entry) => [
      new Date(entry.atMs).toISOString().slice(11, 23),
      entry.client,
      renderLink(entry),
      entry.operation ?? 'unknown route',
      renderStatus(entry),
      entry.durationMs,
    ]);

  return renderList('Requests', ['UTC', 'client', 'request', 'operation', 'status', 'ms'], rows);
}

function renderLink(entry: LoggedRequest): Html {
  const text = writeRequest(entry).slice(0, 160);
  return html`<a href="/_sandbox/page/requests/${entry.place}">${text}</a>`;
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

function renderFindings({ findings }: World): Html {
  const headings = ['client', 'operation', 'finding', 'advice', 'count'];
  const rows = findings
    .list()
    .slice(0, shownRows)
    .map(({ client, operation, code, member, advice, count }) => {
      return [client, operation, `${code} ${member}`, advice, count];
    });

  return renderList('Findings', headings, rows);
}

function renderFaults({ faults }: World): Html {
  const rows = faults.rules.map(({ number, hits, seen: _, effect, ...rule }) => {
    const remove = renderButton('faults/remove', { number }, 'Remove');
    return [number, JSON.stringify(rule), JSON.stringify(effect), hits, remove];
  });

  return renderList('Faults', ['number', 'requests', 'effect', 'hits', 'action'], rows);
}

/** Renders a logged request with its bodies, and as a command of curl. */
function renderExchange({ log }: World, { params, protocol, host }: FastifyRequest): Html {
  const { place } = z.object({ place: z.coerce.number().int() }).parse(params);
  const exchange = log.readExchange(place);
  const isPart = exchange.cut || !exchange.kept;
  const note = isPart ? html`<p>Only the beginnings of the latest bodies are kept.</p>` : '';

  return renderFrame(
    'Sandbox: request',
    html`<a href="/">All requests</a>`,
    html`<h1>${writeRequest(exchange)}</h1>
<p>${renderStatus(exchange)} ${exchange.operation}, client ${exchange.client}</p>${note}
<pre class="copy" tabindex="0">${writeCommand(exchange, `${protocol}://${host}`)}</pre>
<h2>Request</h2><pre tabindex="0">${indentJson(exchange.requestBody)}</pre>
<h2>Answer</h2><pre tabindex="0">${indentJson(exchange.answerBody)}</pre>`,
  );
}

/** Returns a body as it was sent, or with line breaks if it is JSON. */
function indentJson(body: string | null): string {
  try {
    return JSON.stringify(JSON.parse(body ?? ''), null, 2);
  } catch {
    return body ?? 'none';
  }
}

function writeCommand(exchange: Exchange, origin: string): string {
  const { method, path, query, contentType, requestBody, cut, hasToken } = exchange;
  const body = cut ? '@body' : requestBody;
  const parts = [
    `curl -g -X ${method} ${quote(`${origin}${path}${query === '' ? '' : `?${query}`}`)}`,
    hasToken && '-H "authorization: bearer $TOKEN"',
    contentType && `-H ${quote(`content-type: ${contentType}`)}`,
    body && `--data-binary ${quote(body)}`,
  ];
  return parts.filter(Boolean).join(' \\\n  ');
}

const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;
