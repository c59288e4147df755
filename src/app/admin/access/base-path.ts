import type { FastifyInstance } from 'fastify';

/**
 * ADMIN_BASE_PATH, the path that a reverse proxy puts before every path of this server. Routes and pages are written
 * without it: requests lose it on arrival, and links, forms and redirects get it before they are sent.
 */

/** Removes the base path from the address of a request. An address without it, as probes use, stays unchanged. */
export function stripBasePath(url: string, basePath: string): string {
  const rest = url.slice(basePath.length);
  if (basePath === '' || !url.startsWith(basePath) || !/^(?:[/?]|$)/.test(rest)) return url;
  return rest.startsWith('/') ? rest : `/${rest}`;
}

/**
 * Puts the base path before the addresses in markup. Values cannot have these attributes, because their quotation
 * marks are escaped.
 */
export const addBasePath = (markup: string, basePath: string): string =>
  basePath === '' ? markup : markup.replaceAll(/ (href|src|action)="\/(?!\/)/g, ` $1="${basePath}/`);

/** Puts the base path before the addresses in all answers. */
export function prefixAnswers(app: FastifyInstance, basePath: string): void {
  if (basePath === '') return;
  app.addHook('onSend', async (_request, reply, payload) => {
    const location = reply.getHeader('location');
    if (typeof location === 'string' && location.startsWith('/')) reply.header('location', `${basePath}${location}`);
    const isPage = String(reply.getHeader('content-type')).startsWith('text/html');
    return isPage && typeof payload === 'string' ? addBasePath(payload, basePath) : payload;
  });
}
