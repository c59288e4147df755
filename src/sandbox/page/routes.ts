import { readFileSync } from 'node:fs';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { z } from 'zod';
import { html } from '../../core/html.ts';
import { sandboxAssetsFolder, styleFolder } from '../../core/installation.ts';
import type { World } from '../world.ts';
import { renderExchange } from './exchange-page.ts';
import { renderFrame } from './frame.ts';
import { isPageForm, leadBack } from './outcome.ts';
import { renderPage, renderParts } from './page.ts';
import { readView } from './view.ts';

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

/** Adds the page `/` with its parts, style and script. It changes nothing: its forms call the controls. */
export function addPageRoutes(app: FastifyInstance, world: World): void {
  const config = { operation: null };
  app.get('/', { config }, async (request, reply) => sendPage(reply, renderPage(world, readView(request.url, world))));
  app.get('/_sandbox/page/parts', { config }, async (request, reply) => {
    const parts = Object.entries(renderParts(world, readView(request.url, world)));
    reply.header('cache-control', 'no-store');
    return Object.fromEntries(parts.map(([id, part]) => [id, html`${part}`.text]));
  });
  app.get('/_sandbox/page/requests/:place', { config }, async (request, reply) => {
    const { place } = z.object({ place: z.coerce.number().int() }).parse(request.params);
    const exchange = renderExchange(world, place, `${request.protocol}://${request.host}`);
    return sendPage(reply, renderFrame('Sandbox: request', html`<a href="/#requests">All requests</a>`, exchange));
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
