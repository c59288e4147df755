/** Maximum number of characters kept from a text that others wrote. */
const maxQuotedLength = 200;

/**
 * Control characters, including NUL (Postgres cannot store it), other line ends, and what no font
 * shows: changes of the text direction, spaces without width, tags. Two joiners (U+200C and U+200D)
 * stay, because Persian and Indian names and emoji need them, and the two variation selectors of
 * emoji.
 */
const hiddenCharacters = /[\p{Cc}\p{DI}\u2028\u2029](?<![\ufe0e\ufe0f\u200c-\u200d])/gu;

/**
 * Quotes a text that others wrote: the service, a payload, or a database error that shows a value.
 * The text is cut, put into one line, and set between « and ». People who look at a row may read
 * it. Logs must not hold it, because it may contain personal data.
 */
export function quote(words: string): string {
  // Cut first: the text may be a whole page.
  const line = words
    .slice(0, 4 * maxQuotedLength)
    .replaceAll(/[«»]/g, "'")
    .replaceAll(/\s+/g, ' ')
    .replaceAll(hiddenCharacters, '');
  return `«${line.slice(0, maxQuotedLength).toWellFormed()}»`;
}

/** Cuts a text that others wrote, such as a code, to be named in a message. */
export const shorten = (text: string, maxLength: number): string =>
  text.length > maxLength ? `${text.slice(0, maxLength).toWellFormed()}…` : text;

/**
 * Replaces hidden characters by their code. Use it for all text that is shown to people: a terminal
 * would execute control characters, and others change the text direction.
 * @param kept characters that stay; by default line breaks
 */
export function toVisible(text: string, kept = '\n'): string {
  return text.replaceAll(hiddenCharacters, (found) =>
    kept.includes(found) ? found : `\\u{${found.codePointAt(0)?.toString(16)}}`,
  );
}

/**
 * Replaces hidden characters in JSON by escapes, which mean the same. `JSON.stringify` escapes only
 * some of them.
 */
export function escapeHidden(json: string): string {
  return json.replaceAll(hiddenCharacters, (found) =>
    found === '\n' ? found : found.split('').map(escapeUnit).join(''),
  );
}

const escapeUnit = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;

/**
 * Replaces each quotation in a text by «…». A quotation without an end extends to the end of the
 * text.
 */
export function removeQuotes(text: string): string {
  return text.replaceAll(/«[^»]*(?:»|$)/g, '«…»');
}
