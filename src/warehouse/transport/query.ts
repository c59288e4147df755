/** Query parameters in order; an array is an `[in]` list. */
export type QueryParameters = Readonly<Record<string, string | number | readonly (string | number)[]>>;

/**
 * Percent-encodes one value with every character that interface.md (Pagination) lists, also those which
 * encodeURIComponent leaves alone.
 */
export function encodeValue(value: string | number): string {
  return encodeURIComponent(value).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** A query string without the question mark. Values of a list are encoded one by one, the commas between them bare. */
export function encodeQuery(parameters: QueryParameters): string {
  return Object.entries(parameters)
    .map(([name, value]) => {
      const values = Array.isArray(value) ? value : [value];
      return `${encodeValue(name)}=${values.map(encodeValue).join(',')}`;
    })
    .join('&');
}

const cursorParameter = /((?:^|&)page(?:\[|%5B)cursor(?:\]|%5D)=)([^&]*)/i;

/** The `page[cursor]` of a query string: 0 where it is absent (interface.md, Pagination), null where it is no integer. */
export function cursorOf(query: string): number | null {
  const text = cursorParameter.exec(query)?.[2];
  if (text === undefined) return 0;
  return /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** The same query with another `page[cursor]`. */
export function withCursor(query: string, cursor: number): string {
  if (cursorParameter.test(query)) return query.replace(cursorParameter, `$1${cursor}`);
  const added = encodeQuery({ 'page[cursor]': cursor });
  return query === '' ? added : `${query}&${added}`;
}
