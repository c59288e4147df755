import { z } from 'zod';
import { BadRequest, numberOf, type Query } from './query.ts';
import type { ResourceObject } from './resources.ts';

/** What interface.md leaves open, and so can be switched; the first of each is the default. */
export const switchesSchema = z.strictObject({
  cursor: z.enum(['id', 'offset', 'opaque']).default('id'),
  links: z.enum(['object', 'string', 'relative']).default('object'),
  included: z.enum(['inside', 'top']).default('inside'),
  /** Whether a full last page still has a next link, which leads to an empty page. */
  emptyLastPage: z.boolean().default(false),
  tokenSeconds: z.number().int().positive().default(1_200),
});
export type Switches = z.infer<typeof switchesSchema>;

const maxPageSize = 100;
/** An opaque cursor is an integer all the same (interface.md, Pagination), but neither an id nor a count. */
const opaqueStep = 17;
const opaqueBase = 1_000_003;

export interface PageRequest {
  readonly query: Query;
  readonly rawQuery: string;
  readonly path: string;
  readonly origin: string;
  readonly switches: Switches;
}

/** One row of a list: its id, and how it and what is included with it look. */
export interface Row {
  readonly id: number;
  readonly render: () => { readonly resource: ResourceObject; readonly included: readonly ResourceObject[] };
}

/** Cuts the page that a request asks for out of all rows that match, in ascending order of id. */
export function page(rows: readonly Row[], request: PageRequest): Record<string, unknown> {
  const { query, switches } = request;
  const size = numberOf(query, 'page[size]', maxPageSize, 1, maxPageSize);
  const cursor = numberOf(query, 'page[cursor]', 0, 0, Number.MAX_SAFE_INTEGER);
  const start = startOf(rows, cursor, switches.cursor);
  const shown = rows.slice(start, start + size);
  const hasNext = start + size < rows.length || (switches.emptyLastPage && shown.length === size);
  const lastId = shown.at(-1)?.id ?? 0;
  const links = linksOf(request, hasNext ? cursorAfter(start + shown.length, lastId, switches.cursor) : null);
  return {
    ...place(
      shown.map((row) => row.render()),
      switches.included,
    ),
    links,
  };
}

/** Puts included resources where the switch says: inside each resource, or on top of the document. */
export function place(
  rendered: readonly ReturnType<Row['render']>[],
  where: Switches['included'],
): { data: ResourceObject[]; included?: ResourceObject[] } {
  const included = rendered.flatMap((row) => row.included);
  if (where === 'top' && included.length > 0) return { data: rendered.map(({ resource }) => resource), included };
  return {
    data: rendered.map((row) => (row.included.length > 0 ? { ...row.resource, included: row.included } : row.resource)),
  };
}

function startOf(rows: readonly Row[], cursor: number, meaning: Switches['cursor']): number {
  if (cursor === 0) return 0;
  if (meaning === 'offset') return cursor;
  if (meaning === 'opaque') {
    const start = (cursor - opaqueBase) / opaqueStep;
    if (!Number.isInteger(start) || start < 0)
      throw new BadRequest('page[cursor]', 'was not given out by this service');
    return start;
  }
  // First row with a larger id, by halving.
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle]?.id ?? 0) <= cursor) low = middle + 1;
    else high = middle;
  }
  return low;
}

function cursorAfter(position: number, lastId: number, meaning: Switches['cursor']): number {
  if (meaning === 'id') return lastId;
  return meaning === 'offset' ? position : position * opaqueStep + opaqueBase;
}

function linksOf(request: PageRequest, cursor: number | null): Record<string, unknown> {
  const { path, rawQuery, origin, switches } = request;
  if (cursor === null) return switches.links === 'relative' ? {} : { next: null };
  const others = rawQuery.split('&').filter((part) => part !== '' && !/^page(\[|%5B)cursor(\]|%5D)=/i.test(part));
  const next = `${path}?${[...others, `page[cursor]=${cursor}`].join('&')}`;
  if (switches.links === 'relative') return { next };
  return { next: switches.links === 'string' ? `${origin}${next}` : { href: `${origin}${next}` } };
}
