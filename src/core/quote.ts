/** The most that is kept of a text that others wrote. */
const maxQuoted = 200;

/** Control characters, NUL among them (Postgres keeps none), and marks that turn the direction of what follows. */
const hidden = /[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/**
 * Words that are not ours, cut and set between « and » in one line: those of the service, of a payload, of a database that quotes a
 * value. People who look at a row may read them, a log must not hold them: they may name whom an order is for.
 */
export function quote(words: string): string {
  // What is cut off need not be looked at: the words may be a whole page.
  const line = words
    .slice(0, 4 * maxQuoted)
    .replaceAll(/[«»]/g, "'")
    .replaceAll(/\s+/g, ' ')
    .replaceAll(hidden, '');
  return `«${line.slice(0, maxQuoted).toWellFormed()}»`;
}

/**
 * Replaces hidden characters by their code, except line breaks: what a terminal would carry out, or what turns the direction
 * of the text, is shown instead. For everything that is printed for people.
 */
export function toVisible(text: string): string {
  return text.replaceAll(hidden, (found) => (found === '\n' ? found : `\\u{${found.codePointAt(0)?.toString(16)}}`));
}

/** A text without what was quoted in it; a quotation that was cut off counts to the end. */
export function withoutQuotes(text: string): string {
  return text.replaceAll(/«[^»]*(?:»|$)/g, '«…»');
}
