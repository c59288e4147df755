import { makeUndecodableError } from '../core/errors.ts';
import { decodeRow, type ResourceFields, type RowOf } from '../service/decoding/fields.ts';
import {
  addIncluded,
  type Document,
  findChildren,
  indexIncluded,
  type Resource,
} from '../service/decoding/jsonapi.ts';
import type { HttpAnswer } from '../service/transport/http.ts';

/**
 * Returns true if a success has no body, as with 204. Then only a reading shows what it did. A kind
 * that cannot read it treats the answer like any other that it cannot read.
 */
export const isEmpty = ({ body }: Pick<HttpAnswer, 'body'>): boolean => body.trim() === '';

/**
 * Returns true for 204, by which the service itself says that it has carried the request out and
 * answers nothing. An empty answer with another status may come from a proxy.
 */
export const saysNothing = ({ status }: Pick<HttpAnswer, 'status'>): boolean => status === 204;

/** A resource of an answer, as a row and as received. */
interface AnsweredResource<Of> {
  readonly row: RowOf<Of>;
  /** The resource with those included with it. */
  readonly resource: Resource;
  readonly escaped: boolean;
}

/**
 * Reads the resources of a document.
 * @param failure beginning of the message of the error
 * @throws WarehouseError `undecodable` if one of them cannot be read; then the whole answer proves
 *   nothing
 */
export function readResources<Of extends ResourceFields>(
  document: Document,
  fields: Of,
  failure: string,
): AnsweredResource<Of>[] {
  const onTop = indexIncluded(document.included);

  return document.data.map((data) => {
    const resource = addIncluded(data, onTop);
    const read = decodeRow(fields, resource);
    if ('row' in read)
      return { row: read.row, resource: resource as Resource, escaped: document.escaped };
    throw makeUndecodableError(`${failure}: ${read.problem.path}: ${read.problem.reason}`);
  });
}

/**
 * Reads the included resources of one type. Skips unreadable ones.
 * @param ids the ids to read; null: all
 */
export function readIncluded<Of extends ResourceFields>(
  resource: Resource,
  fields: Of,
  ids: readonly number[] | null = null,
): RowOf<Of>[] {
  return findChildren(resource, fields.type, ids, new Map()).resources.flatMap((child) => {
    const read = decodeRow(fields, child);
    return 'row' in read ? [read.row] : [];
  });
}

/** A line of a payload or of a resource. A payload may lack members that are optional. */
interface Line {
  readonly sku?: string | null | undefined;
  readonly quantity?: number | null | undefined;
}

/**
 * Compares lines by sku and quantity. A sku whose quantity the row leaves open is compared without
 * it.
 * @returns the difference in words; null if they are equal
 */
export function describeLineDifference(
  asked: readonly Line[],
  found: readonly Line[],
): string | null {
  const isOpen = ({ quantity }: Line) => quantity === undefined || quantity === null;
  const open = new Set(asked.filter(isOpen).map(({ sku }) => sku ?? ''));
  const [wanted, seen] = [sumLines(asked, open), sumLines(found, open)];
  return wanted === seen
    ? null
    : `it has ${seen || 'no lines'}, but the row asks for ${wanted || 'no lines'}`;
}

function sumLines(lines: readonly Line[], open: ReadonlySet<string>): string {
  const sums = new Map<string, number>();
  for (const { sku, quantity } of lines)
    sums.set(sku ?? '', (sums.get(sku ?? '') ?? 0) + (quantity ?? 0));
  return [...sums]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([sku, sum]) => (open.has(sku) ? `any x ${sku}` : `${sum} x ${sku}`))
    .join(', ');
}
