/**
 * This folder: kinds that concern a return. An announced return is named by its id, or by a reference that no other
 * one has.
 */

import { makeUndecodableError } from '../../../../core/errors.ts';
import { decodeDocument } from '../../../../warehouse/decoding/jsonapi.ts';
import { authorization, authorizationItem, authorizations } from '../../../streams/authorizations.ts';
import { readIncluded, readResources } from '../../payload/answers.ts';
import { NotFoundError, type PushContext, type PushResult } from '../../payload/kind.ts';

/**
 * Reads the answer to an announcement or to its replacement.
 * @param replaced id of the announcement that was replaced; null if it is a new one
 * @throws WarehouseError `undecodable` if the answer cannot be read or describes another return
 */
export function readAnnouncement(operation: string, body: string, replaced: number | null): PushResult {
  const document = decodeDocument(operation, body, 'single');
  const [read] = readResources(document, authorization, operation);
  if (read === undefined || (replaced !== null && read.row.id !== replaced))
    throw makeUndecodableError(`${operation}: the answer describes another return`);
  const { row, resource, escaped } = read;
  const { id, status, return_merchandise_authorization_items_ids: ids } = row;
  const lines = readIncluded(resource, authorizationItem, ids);
  const items = lines.map((line) => ({ id: line.id, shipmentItemId: line.shipment_item_id }));
  return {
    result: { returnMerchandiseAuthorizationId: id, status, items },
    reading: { stream: authorizations, resource, escaped },
  };
}

/**
 * Returns the id of the announced return: the one that the payload names, else the only one with the row's reference.
 * @throws NotFoundError if no announced return, or more than one, has the reference
 */
export function findAnnouncedId(named: number | null | undefined, { row }: PushContext): number {
  const id = named ?? row.knownId;
  if (named === undefined || named === null) {
    if (row.knownCount > 1)
      throw new NotFoundError(
        `${row.knownCount} announced returns have the reference ${row.reference}; name one by returnMerchandiseAuthorizationId`,
      );
  }
  if (id !== null) return id;
  throw new NotFoundError(
    `no announced return with the reference ${row.reference} is known here; name it by returnMerchandiseAuthorizationId`,
  );
}
