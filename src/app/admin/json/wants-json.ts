/** Content negotiation: every page is also served as JSON, for who asks for it. */

/**
 * Returns true if an Accept header prefers JSON to HTML. Without a preference, the answer is a page.
 * @param accept the header; undefined if there is none
 */
export function wantsJson(accept: string | undefined): boolean {
  return findQuality(accept, 'application/json') > findQuality(accept, 'text/html');
}

/** Finds how much a media type is wanted, from 0 (not at all) to 1. The most specific entry counts. */
function findQuality(accept: string | undefined, type: string): number {
  const entries = (accept ?? '*/*').split(',').map((entry) => {
    const [range = '', ...parameters] = entry.split(';').map((part) => part.trim().toLowerCase());
    const quality = Number(parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? 1);
    return { range, quality: Number.isFinite(quality) ? quality : 0 };
  });
  const group = `${type.split('/', 1)[0]}/*`;
  return (
    [type, group, '*/*']
      .map((range) => entries.find((entry) => entry.range === range)?.quality)
      .find((quality) => quality !== undefined) ?? 0
  );
}
