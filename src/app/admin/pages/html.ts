/** Markup that is safe to send: made by `html` alone. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** What may stand in markup; null, undefined and false stand for nothing. */
export type Child = Html | string | number | null | undefined | false | readonly Child[];

/** Markup in which every value is escaped, but what is markup already. */
export function html(strings: TemplateStringsArray, ...values: readonly Child[]): Html {
  return new Html(strings.map((part, index) => part + (index < values.length ? render(values[index]) : '')).join(''));
}

function render(value: Child): string {
  if (value === null || value === undefined || value === false) return '';
  if (value instanceof Html) return value.text;
  if (typeof value === 'string' || typeof value === 'number') return escapeText(String(value));
  return value.map(render).join('');
}

/**
 * Removes quoted words from markup. They come from the service or a payload, and may name the person that an order is for. A
 * quotation without its end mark ends with its element or attribute.
 */
export const maskQuotes = (markup: string): string => markup.replaceAll(/«[^»<"]*»?/g, '«…»');

/** For element content and for attribute values in double quotes. */
function escapeText(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}
