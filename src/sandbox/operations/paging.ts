import type { Switches } from '../options.ts';
import { badParameter } from '../refusal.ts';
import { readRowsAfter, readRowsFrom, type Selection, type StoredRow } from '../store/listing.ts';
import type { ResourceObject } from './v3-document.ts';

const maxPageSize = 100;
/** An opaque cursor is an integer too (docs/interface.md, 2.4 Paging), but neither an id nor a count. */
const opaqueStep = 17;
const opaqueBase = 1_000_003;

export interface PageRequest {
  readonly cursor: number | undefined;
  readonly size: number | undefined;
  readonly rawQuery: string;
  readonly path: string;
  readonly origin: string;
  readonly switches: Switches;
  /** Position of the included resources. */
  readonly included: Switches['included'];
}

/** A resource to be shown, with the resources that are included with it. */
export interface RenderedResource {
  readonly resource: ResourceObject;
  readonly included: readonly ResourceObject[];
}

/**
 * Returns the page of a selection that a request asks for, in ascending order of id.
 * @param render returns null for a row that this caller does not see
 * @throws Refusal if the cursor is opaque and was not granted by this service
 */
export function renderPage<T extends StoredRow>(
  selection: Selection<T>,
  request: PageRequest,
  render: (row: T) => RenderedResource | null,
): Record<string, unknown> {
  const { switches, cursor = 0, size = maxPageSize } = request;
  const shown: RenderedResource[] = [];
  let [hasMore, passed, lastId] = [false, 0, 0];
  const start = decodeCursor(cursor, switches.cursor);
  const rows =
    start.afterId === null ? readRowsFrom(selection, start.position) : readRowsAfter(selection, start.afterId);
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
  const next = hasNext ? encodeCursor(start.position + passed, lastId, switches.cursor) : null;
  return { ...placeIncluded(shown, request.included), links: toLinks(request, next) };
}

/** Places the included resources inside each resource or at the top of the document. */
function placeIncluded(
  rendered: readonly RenderedResource[],
  where: Switches['included'],
): { data: ResourceObject[]; included?: ResourceObject[] } {
  const included = rendered.flatMap((row) => row.included);
  if (where === 'top' && included.length > 0) return { data: rendered.map(({ resource }) => resource), included };
  return {
    data: rendered.map((row) => (row.included.length > 0 ? { ...row.resource, included: row.included } : row.resource)),
  };
}

/** Returns a document with one resource. */
export function renderDocument(rendered: RenderedResource, where: Switches['included']): Record<string, unknown> {
  const { data, ...rest } = placeIncluded([rendered], where);
  return { data: data[0], ...rest };
}

function decodeCursor(cursor: number, meaning: Switches['cursor']): { afterId: number | null; position: number } {
  if (cursor === 0 || meaning === 'offset') return { afterId: null, position: cursor };
  if (meaning === 'id') return { afterId: cursor, position: 0 };
  const position = (cursor - opaqueBase) / opaqueStep;
  if (!Number.isInteger(position) || position < 0)
    throw badParameter('page[cursor]', 'was not given out by this service');
  return { afterId: null, position };
}

function encodeCursor(position: number, lastId: number, meaning: Switches['cursor']): number {
  if (meaning === 'id') return lastId;
  return meaning === 'offset' ? position : position * opaqueStep + opaqueBase;
}

function toLinks(request: PageRequest, cursor: number | null): Record<string, unknown> {
  const { path, rawQuery, origin, switches } = request;
  if (cursor === null) return switches.links === 'relative' ? {} : { next: null };
  const others = rawQuery.split('&').filter((part) => part !== '' && !/^page(\[|%5B)cursor(\]|%5D)=/i.test(part));
  const next = `${path}?${[...others, `page[cursor]=${cursor}`].join('&')}`;
  if (switches.links === 'relative') return { next };
  return { next: switches.links === 'string' ? `${origin}${next}` : { href: `${origin}${next}` } };
}
