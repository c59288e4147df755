import { z } from 'zod';
import { badParameter } from './refusal.ts';
import type { ResourceObject } from './resources/jsonapi.ts';
import { rowsAfter, rowsFrom, type Selection } from './store/listing.ts';
import type { HasId } from './store/sorted-rows.ts';

/** What interface.md leaves open, and so can be switched; the first of each is the default. */
export const switchesSchema = z.strictObject({
  cursor: z.enum(['id', 'offset', 'opaque']).default('id'),
  links: z.enum(['object', 'string', 'relative']).default('object'),
  included: z.enum(['inside', 'top']).default('inside'),
  /** Whether a full last page still has a next link, which leads to an empty page. */
  emptyLastPage: z.boolean().default(false),
  tokenSeconds: z.number().int().positive().default(1_200),
  unknownProducts: z.enum(['create', 'refuse']).default('create'),
  repeatedReturnLines: z.boolean().default(false),
  /** Whether v3 takes another order with a number that is taken, so that a test can tell what was sent twice. */
  repeatedNumbers: z.boolean().default(false),
});
export type Switches = z.infer<typeof switchesSchema>;

const maxPageSize = 100;
/** An opaque cursor is an integer all the same (interface.md, Pagination), but neither an id nor a count. */
const opaqueStep = 17;
const opaqueBase = 1_000_003;

export interface PageRequest {
  readonly cursor: number | undefined;
  readonly size: number | undefined;
  readonly rawQuery: string;
  readonly path: string;
  readonly origin: string;
  readonly switches: Switches;
  /** Where included resources stand. */
  readonly included: Switches['included'];
}

/** A row as it is shown, with what is included with it. */
export interface Rendered {
  readonly resource: ResourceObject;
  readonly included: readonly ResourceObject[];
}

/**
 * Cuts the page that a request asks for out of a selection, in ascending order of id.
 * @param render null for a row that is not shown to this caller
 */
export function page<T extends HasId>(
  selection: Selection<T>,
  request: PageRequest,
  render: (row: T) => Rendered | null,
): Record<string, unknown> {
  const { switches, cursor = 0, size = maxPageSize } = request;
  const shown: Rendered[] = [];
  let [hasMore, passed, lastId] = [false, 0, 0];
  const start = startOf(cursor, switches.cursor);
  const rows = start.afterId === null ? rowsFrom(selection, start.position) : rowsAfter(selection, start.afterId);
  for (const row of rows) {
    if (shown.length === size) {
      hasMore = true;
      break;
    }
    passed++;
    lastId = row.id;
    const rendered = render(row);
    if (rendered !== null) shown.push(rendered);
  }
  const hasNext = hasMore || (switches.emptyLastPage && shown.length === size);
  const next = hasNext ? cursorAfter(start.position + passed, lastId, switches.cursor) : null;
  return { ...place(shown, request.included), links: linksOf(request, next) };
}

/** Puts included resources where the switch says: inside each resource, or on top of the document. */
function place(
  rendered: readonly Rendered[],
  where: Switches['included'],
): { data: ResourceObject[]; included?: ResourceObject[] } {
  const included = rendered.flatMap((row) => row.included);
  if (where === 'top' && included.length > 0) return { data: rendered.map(({ resource }) => resource), included };
  return {
    data: rendered.map((row) => (row.included.length > 0 ? { ...row.resource, included: row.included } : row.resource)),
  };
}

/** A document with one resource. */
export function single(rendered: Rendered, where: Switches['included']): Record<string, unknown> {
  const { data, ...rest } = place([rendered], where);
  return { data: data[0], ...rest };
}

function startOf(cursor: number, meaning: Switches['cursor']): { afterId: number | null; position: number } {
  if (cursor === 0 || meaning === 'offset') return { afterId: null, position: cursor };
  if (meaning === 'id') return { afterId: cursor, position: 0 };
  const position = (cursor - opaqueBase) / opaqueStep;
  if (!Number.isInteger(position) || position < 0)
    throw badParameter('page[cursor]', 'was not given out by this service');
  return { afterId: null, position };
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
