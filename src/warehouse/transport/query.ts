/** Query parameters in order. An array is the list of an `[in]` filter. */
export type QueryParameters = Readonly<Record<string, string | number | readonly (string | number)[]>>;

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

/** Encodes a query, without the question mark. It encodes the values of a list, but not the commas between them. */
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
 * Reads the `page[cursor]` of a query: 0 if it is absent (docs/interface.md, 2.4 Paging), null if it is not an integer.
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
