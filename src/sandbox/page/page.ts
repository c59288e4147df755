/**
 * The page of the sandbox. Every part of it is rendered here as HTML, so that it also works without
 * its script.
 */

import { readFileSync } from 'node:fs';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type Child, html } from '../../core/html.ts';
import { sandboxAssetsFolder, styleFolder } from '../../core/installation.ts';
import { isForm } from '../normalize-body.ts';
import { isFromHost } from '../refusal.ts';
import type { World } from '../world.ts';
import { renderData } from './data.ts';
import { field, hidden, type View, writeAddress, writeMoment } from './elements.ts';
import { renderActions, renderFaults } from './forms.ts';
import { renderExchange, renderFindings, renderLog } from './requests.ts';

const contentPolicy = [
  "default-src 'none'",
  "style-src 'self'",
  "script-src 'self'",
  "connect-src 'self'",
  'img-src data:',
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/**
 * Adds the page `/` with its parts, style and script. It changes nothing: its forms call the
 * controls.
 */
export function addPageRoutes(app: FastifyInstance, world: World): void {
  const config = { operation: null };
  app.get('/', { config }, async (request, reply) =>
    sendPage(reply, renderPage(world, readView(request.url, world))),
  );
  app.get('/_sandbox/page/parts', { config }, async (request, reply) => {
    const parts = Object.entries(renderParts(world, readView(request.url, world)));
    reply.header('cache-control', 'no-store');
    return Object.fromEntries(parts.map(([id, part]) => [id, html`${part}`.text]));
  });
  app.get('/_sandbox/page/requests/:place', { config }, async (request, reply) => {
    const { place } = z.object({ place: z.coerce.number().int() }).parse(request.params);
    const exchange = renderExchange(world, place, `${request.protocol}://${request.host}`);
    return sendPage(
      reply,
      renderFrame('Sandbox: request', html`<a href="/#requests">All requests</a>`, exchange),
    );
  });
  for (const [name, folder, type] of [
    ['page.css', styleFolder, 'text/css'],
    ['page.js', sandboxAssetsFolder, 'text/javascript'],
  ] as const) {
    const text = readFileSync(new URL(name, folder), 'utf8');
    app.get(`/_sandbox/${name}`, { config }, async (_request, reply) =>
      reply.type(`${type}; charset=utf-8`).header('cache-control', 'no-cache').send(text),
    );
  }
  app.addHook('preSerialization', async (request, reply, payload) => {
    // Refusals are answered by the error handler.
    if (isPageForm(request) && reply.statusCode === 200) leadBack(request, reply, payload);
    return payload;
  });
}

/** Sends a page with its content policy. */
export function sendPage(reply: FastifyReply, page: string): FastifyReply {
  return reply
    .type('text/html; charset=utf-8')
    .header('content-security-policy', contentPolicy)
    .header('referrer-policy', 'same-origin')
    .header('x-content-type-options', 'nosniff')
    .header('cache-control', 'no-store')
    .send(page);
}

const maxLength = 200;

/** Reads the choices from an address of the page. Replaces an unknown client by the first one. */
function readView(url: string, { clientNames }: World): View {
  const query = new URLSearchParams(url.split('?', 2)[1]);
  const read = (name: string) => (query.get(name) ?? '').trim().slice(0, maxLength);
  const client = clientNames.find((name) => name === read('client')) ?? clientNames[0] ?? '';
  return { client, q: read('q'), said: read('said') };
}

/** Renders the parts of the page that the script loads again. */
function renderParts(world: World, view: View): Record<string, Child> {
  const { speed } = world.options;
  const pace = speed === 0 ? 'stopped' : `${speed} virtual seconds per second`;
  return {
    clock: `Virtual time ${writeMoment(world.clock.nowMs())} UTC, ${pace}`,
    data: renderData(world.requireClient(view.client).simulation.store, view),
    log: renderLog(world, view),
    'all-findings': renderFindings(world),
    'active-faults': renderFaults(world),
  };
}

function renderPage(world: World, view: View): string {
  const parts = renderParts(world, view);
  const part = (id: string) => html`<div id="${id}" class="part">${parts[id]}</div>`;
  const { store } = world.requireClient(view.client).simulation;
  const links = world.clientNames.map((name) => {
    const current = name === view.client ? html` aria-current="page"` : '';
    return html`<li><a href="${writeAddress({ client: name })}"${current}>${name}</a></li>`;
  });
  const label = 'Order number, id, SKU, reference, or a text in a request';
  return renderFrame(
    `Sandbox: ${view.client}`,
    html`<nav aria-label="Clients"><ul>${links}</ul></nav>
${part('clock')}<a href="/openapi.json">OpenAPI document</a>`,
    html`<h1>Sandbox of the warehouse fulfilment service</h1>
<p class="said" role="status">${/^[a-z/-]+$/.test(view.said) ? `Done: ${view.said}` : ''}</p>
<form class="filter" role="search" method="get" action="/">${hidden('client', view.client)}
${field('q', label, { type: 'search', value: view.q })} <button>Search</button>
<a href="${writeAddress({ client: view.client })}">All</a></form>
<section aria-label="Actions"><div class="sandbox-actions">${renderActions(world, store)}</div>
<h2>Active faults</h2>${part('active-faults')}</section>
${part('data')}${part('log')}${part('all-findings')}`,
  );
}

/** Renders a whole page around its content. */
function renderFrame(title: string, header: Child, body: Child): string {
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
<a class="skip" href="#main">Skip to content</a>
<header><a class="name" href="/">Sandbox</a>${header}</header>
<main id="main" tabindex="-1">
${body}
</main>
</body>
</html>
`.text;
}

/**
 * Returns whether a browser has sent a form of the page to a control. Programs get JSON instead.
 */
export function isPageForm(request: FastifyRequest): boolean {
  const isControl = request.routeOptions.config.operation === null;
  return isControl && isForm(request) && (request.headers.accept ?? '').includes('text/html');
}

/**
 * Leads the browser back to the page that sent the form. The page says what was done, and shows a
 * new order.
 */
function leadBack(request: FastifyRequest, reply: FastifyReply, answer: unknown): void {
  const query = new URLSearchParams(readReferrer(request).slice(2));
  const action = request.url.replace('/_sandbox/', '');
  query.set('said', action);
  const { externalOrderNumber } = answer as { externalOrderNumber?: string };
  if (action === 'order' && externalOrderNumber !== undefined) query.set('q', externalOrderNumber);
  reply.code(303).header('location', `/?${query}`);
}

/** Returns the address of the page from which a form was sent, if it is a page of this sandbox. */
function readReferrer(request: FastifyRequest): string {
  const { referer = '' } = request.headers;
  return isFromHost(referer, request.host) ? `/${new URL(referer).search}` : '/';
}

/** Renders why a form was refused. */
export function renderRefusedForm(request: FastifyRequest, problems: readonly string[]): string {
  const why = problems.map((problem) => html`<p>${problem}</p>`);
  return renderFrame(
    'Sandbox: refused',
    '',
    html`<h1>Refused</h1>
<div class="why" role="alert">${why}</div>
<p><a href="${readReferrer(request)}">Back to the page</a></p>`,
  );
}
