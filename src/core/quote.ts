/** At most so much of anybody else's words is kept. */
const maxQuoted = 200;

/**
 * Words that are not ours, cut and set between « and » in one line: those of the service, of a payload, of a database that quotes a
 * value. People who look at a row may read them, a log must not hold them: they may name whom an order is for.
 */
export function quote(words: string): string {
  const line = words.replaceAll(/[«»]/g, "'").replaceAll(/\s+/g, ' ');
  return `«${line.slice(0, maxQuoted)}»`;
}

/** A text without what was quoted in it; a quotation that was cut off counts to the end. */
export function withoutQuotes(text: string): string {
  return text.replaceAll(/«[^»]*(?:»|$)/g, '«…»');
}
