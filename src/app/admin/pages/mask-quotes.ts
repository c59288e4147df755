/**
 * Removes quoted words from markup. They come from the service or a payload, and may name the recipient of an order. A
 * quotation without its end mark ends with its element or attribute.
 */
export const maskQuotes = (markup: string): string => markup.replaceAll(/«[^»<"]*»?/g, '«…»');
