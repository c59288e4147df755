import { undecodableAnswer, WarehouseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import { quote } from '../../core/quote.ts';

/**
 * The query of `links.next`, in any usual shape: a string or `{href}`, absolute or relative; null or absent at the end.
 * Only its query is taken, to be asked of our own path, so the token never leaves for an address that a page
 * names. Its origin must be ours, up to the scheme.
 * @param requested the URL the page was asked with
 * @throws WarehouseError `link_elsewhere` where the link has another origin, `undecodable` where it is no link
 */
export function nextQuery(links: Json | undefined, requested: URL): string | null {
  if (links === undefined || links === null) return null;
  if (!isObject(links)) throw badLink('links is no object');
  const next = isObject(links.next) ? links.next.href : links.next;
  if (next === undefined || next === null || next === '') return null;
  if (typeof next !== 'string' || !URL.canParse(next, requested.href)) throw badLink('links.next is no address');
  const target = new URL(next, requested.href);
  // A service behind a proxy that ends TLS may well write http: where it was asked by https:.
  if (target.host !== requested.host || !/^https?:$/.test(target.protocol)) {
    throw new WarehouseError(
      'link_elsewhere',
      `links.next leads to ${quote(target.origin)}, but this client's service is ${requested.origin}; nothing was sent there`,
      { outcome: 'refused' },
    );
  }
  return target.search.replace(/^\?/, '');
}

function badLink(reason: string): WarehouseError {
  return undecodableAnswer(`The list cannot be followed: ${reason}`);
}
