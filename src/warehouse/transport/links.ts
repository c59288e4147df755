import { makeUndecodableError, WarehouseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import { quote } from '../../core/quote.ts';

/**
 * Reads the query of `links.next`. The link may be a string or `{href}`, absolute or relative; it is null or absent at
 * the end. Only its query is used, with the path that we request, so that the token is never sent to an address that a
 * page names. Its host must be that of the request; its scheme may differ.
 * @param requested the URL of the request for this page
 * @throws WarehouseError `link_elsewhere` if the link has another host, `undecodable` if it is not a link
 */
export function readNextQuery(links: Json | undefined, requested: URL): string | null {
  if (links === undefined || links === null) return null;
  if (!isObject(links)) throw makeLinkError('links is not an object');
  const next = isObject(links.next) ? links.next.href : links.next;
  if (next === undefined || next === null || next === '') return null;
  if (typeof next !== 'string' || !URL.canParse(next, requested.href))
    throw makeLinkError('links.next is not an address');
  const target = new URL(next, requested.href);
  // Behind a proxy that ends TLS, the service may write http: although the request came with https:.
  if (target.host !== requested.host || !/^https?:$/.test(target.protocol)) {
    throw new WarehouseError(
      'link_elsewhere',
      `links.next leads to ${quote(target.origin)}, but this client's service is ${requested.origin}; ` +
        'the link was not followed',
      { outcome: 'refused' },
    );
  }
  return target.search.replace(/^\?/, '');
}

function makeLinkError(reason: string): WarehouseError {
  return makeUndecodableError(`The next page of the list cannot be read: ${reason}`);
}
