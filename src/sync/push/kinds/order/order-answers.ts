import { makeUndecodableError } from '../../../../core/errors.ts';
import { isObject, parseExact } from '../../../../core/json.ts';
import { decodeMembers, decodeRow, flag, many } from '../../../../warehouse/decoding/fields.ts';
import { findChildren, type Resource } from '../../../../warehouse/decoding/jsonapi.ts';
import { orderItem } from '../../../streams/orders.ts';

const metaFields = { modified: flag, modifiedItems: many };

/** Returns the lines of an order. Skips lines that cannot be read. */
export function readLines(resource: Resource): { id: number; sku: string | null; quantity: number | null }[] {
  return findChildren(resource, 'orderItem', null, new Map()).resources.flatMap((item) => {
    const read = decodeRow(orderItem, item);
    if ('problem' in read) return [];
    const { id, sku, quantity } = read.row;
    return [{ id, sku, quantity }];
  });
}

/**
 * Returns `meta` from the answer to a cancellation (docs/interface.md, 7.8 Cancel and 8.2 Operations).
 * @throws WarehouseError `undecodable` if the answer has no such `meta`
 */
export function readMeta(operation: string, body: string): { modified: boolean; modifiedItems: number[] } {
  const document = parseExact(body);
  const meta = decodeMembers(metaFields, isObject(document) ? (document.meta ?? null) : null);
  if ('problem' in meta || meta.value.modified === null)
    throw makeUndecodableError(`${operation}: the answer does not say what was modified`);
  return { modified: meta.value.modified, modifiedItems: [...(meta.value.modifiedItems ?? [])] };
}
