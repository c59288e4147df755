import {
  createServer,
  type IncomingMessage,
  type ServerResponse,
  request as send,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { SandboxControl } from '../sandbox-control.ts';

/** How a service differs from what docs/assumptions.md assumes. */
interface Differences {
  /**
   * Routes by the assumed routes that they replace, such as `{'PATCH /v3/orders/:id': 'PUT
   * /v3/orders/:id'}`.
   */
  readonly routes?: Readonly<Record<string, string>>;
  /** True if returnItems and inbounds are refused without `page[size]`. */
  readonly requiresPageSize?: boolean;
  /** True if `included` is refused inside `data`. */
  readonly requiresTopIncluded?: boolean;
  /** The only attributes that cancel an order item. */
  readonly cancelAttributes?: object;
  /** The attribute that carries the content of an attachment, instead of `content`. */
  readonly contentMember?: string;
}

interface Body {
  readonly data?: {
    readonly included?: unknown;
    readonly attributes?: Readonly<Record<string, unknown>>;
  };
}

/**
 * Starts a service in front of a sandbox for a whole file. At the start of each test it is like the
 * sandbox.
 * @returns a control whose URL is that of the service, and a function that makes it differ
 */
export function useDifferingService(sandbox: SandboxControl) {
  const service = new SandboxControl();
  let differences: Differences = {};
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const changed = changeRequest(differences, request, Buffer.concat(chunks).toString());
    if ('status' in changed) {
      const error = { errors: [{ status: String(changed.status), title: 'not so here' }] };
      response
        .writeHead(changed.status, { 'content-type': 'application/vnd.api+json' })
        .end(JSON.stringify(error));
      return;
    }
    const { method, url, body } = changed;
    const length = body === '' ? {} : { 'content-length': Buffer.byteLength(body) };
    const forwarded = send(
      new URL(url, sandbox.url),
      { method, headers: { ...request.headers, ...length } },
      (from) => {
        response.writeHead(from.statusCode ?? 502, from.headers);
        from.pipe(response);
      },
    );
    forwarded.on('error', () => response.destroy());
    forwarded.end(body);
  };
  const server = createServer((request, response) => void answer(request, response));
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    service.url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  });
  beforeEach(() => {
    differences = {};
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });
  const differ = (chosen: Differences) => {
    differences = chosen;
  };
  return { service, differ };
}

/** Returns the request as the sandbox knows it, or the status with which the service refuses it. */
function changeRequest(
  {
    routes = {},
    requiresPageSize,
    requiresTopIncluded,
    cancelAttributes,
    contentMember,
  }: Differences,
  { method = 'GET', url = '/' }: IncomingMessage,
  body: string,
):
  | { readonly status: number }
  | { readonly method: string; readonly url: string; readonly body: string } {
  const [path = '', query] = url.split('?', 2);
  const route = `${method} ${path}`;
  const isPaged = /^GET \/v3\/(returnItems|inbounds)$/i.test(route);
  if (requiresPageSize && isPaged && !/page(\[|%5B)size/i.test(query ?? '')) return { status: 400 };
  const isOrder = /^\w+ \/v3\/order/i.test(route);
  const document: Body = isOrder && body.startsWith('{') ? JSON.parse(body) : {};
  if (requiresTopIncluded && document.data?.included !== undefined) return { status: 400 };
  const isCancel = cancelAttributes !== undefined && /^PATCH \/v3\/orderItems\//i.test(route);
  if (isCancel && !isDeepStrictEqual(document.data?.attributes, cancelAttributes))
    return { status: 400 };
  const isAttachment = contentMember !== undefined && /^POST \/v3\/orderAttachments$/i.test(route);
  const { content: _, [contentMember ?? '']: content, ...others } = document.data?.attributes ?? {};
  const attributes = isCancel ? { quantity: 0 } : { ...others, content };
  const sent =
    isCancel || isAttachment ? JSON.stringify({ data: { ...document.data, attributes } }) : body;
  for (const [assumed, replacement] of Object.entries(routes)) {
    const id = matchRoute(replacement, route);
    if (id !== null) {
      const [known = '', template = ''] = assumed.split(' ');
      return {
        method: known,
        url: template.replace(':id', id) + (query === undefined ? '' : `?${query}`),
        body: sent,
      };
    }
    if (matchRoute(assumed, route) !== null) return { status: 404 };
  }
  return { method, url, body: sent };
}

/** Returns the value of `:id` in a route, or '' if it has none; null if it is another route. */
const matchRoute = (template: string, route: string): string | null => {
  const found = new RegExp(`^${template.replace(':id', '([^/]+)')}$`, 'i').exec(route);
  return found === null ? null : (found[1] ?? '');
};
