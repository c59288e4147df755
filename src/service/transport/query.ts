import { makeUndecodableError, WarehouseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import { quote } from '../../core/quote.ts';

/** Query parameters in order. An array is the list of an `[in]` filter. */
export type QueryParameters = Readonly<
  Record<string, string | number | readonly (string | number)[]>
>;

/**
 * Percent-encodes one value, including the characters that encodeURIComponent does not encode
 * (docs/interface.md, 2.5 Filters).
 */
export function encodeValue(value: string | number): string {
  return encodeURIComponent(value).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/**
 * Encodes a query, without the question mark. It encodes the values of a list, but not the commas
 * between them.
 */
export function encodeQuery(parameters: QueryParameters): string {
  return Object.entries(parameters)
    .map(([name, value]) => {
      const values = Array.isArray(value) ? value : [value];
      return `${encodeValue(name)}=${values.map(encodeValue).join(',')}`;
    })
    .join('&');
}

const cursorParameter = /((?:^|&)page(?:\[|%5B)cursor(?:\]|%5D)=)([^&]*)/i;

/**
 * Reads the `page[cursor]` of a query: 0 if it is absent (docs/interface.md, 2.4 Paging), null if
 * it is not an integer.
 */
export function readPageCursor(query: string): number | null {
  const text = cursorParameter.exec(query)?.[2];
  if (text === undefined) return 0;
  return /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** Returns the query with another `page[cursor]`. */
export function setPageCursor(query: string, cursor: number): string {
  if (cursorParameter.test(query)) return query.replace(cursorParameter, `$1${cursor}`);
  const added = encodeQuery({ 'page[cursor]': cursor });
  return query === '' ? added : `${query}&${added}`;
}

/**
 * Maximum length of a link, before and after its characters are encoded. Its query is stored with
 * the cursor.
 */
const maxLinkCharacters = 8_192;

/**
 * Reads the query of `links.next`. The link may be a string or `{href}`, absolute or relative; it
 * is null or absent at the end. Only its query is used, with the address that we request, so that
 * the token is never sent to an address that a page names. Its host name must be that of the
 * request. Scheme, port and path may differ: behind a proxy, the service writes them as it knows
 * them.
 * @param requested the URL of the request for this page
 * @throws WarehouseError `link_elsewhere` if the link has another host, `undecodable` if it is not
 *   a link or too long
 */
export function readNextQuery(links: Json | undefined, requested: URL): string | null {
  if (links === undefined || links === null) return null;
  if (!isObject(links)) throw makeLinkError('links is not an object');

  const next = isObject(links.next) ? links.next.href : links.next;
  if (next === undefined || next === null || next === '') return null;
  if (typeof next !== 'string') throw makeLinkError('links.next is not an address');

  // Checked first: to parse it costs time, and the query is stored.
  if (next.length > maxLinkCharacters) throw makeLongLinkError(next.length);
  if (!URL.canParse(next, requested.href)) throw makeLinkError('links.next is not an address');

  const target = new URL(next, requested.href);
  if (toHostName(target) !== toHostName(requested) || !/^https?:$/.test(target.protocol))
    throw new WarehouseError(
      'link_elsewhere',
      `links.next leads to ${quote(target.origin)}, ` +
        `but this client's service is ${requested.origin}; the link was not followed`,
      { outcome: 'refused' },
    );

  if (target.search.length > maxLinkCharacters) throw makeLongLinkError(target.search.length);
  return target.search.replace(/^\?/, '');
}

/** Returns the host name of a URL, which is in lower case, without the dot of a full name. */
const toHostName = ({ hostname }: URL) => hostname.replace(/\.$/, '');

const makeLongLinkError = (characters: number) =>
  makeLinkError(`links.next has ${characters} characters; the maximum is ${maxLinkCharacters}`);

function makeLinkError(reason: string): WarehouseError {
  return makeUndecodableError(`The next page of the list cannot be read: ${reason}`);
}
