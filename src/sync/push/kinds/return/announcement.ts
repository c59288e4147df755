/**
 * Kinds that concern a return. An announced return is named by its id, or by a reference that only one has.
 */

import { undecodableAnswer } from '../../../../core/errors.ts';
import { findChildren, indexIncluded, withAllIncluded } from '../../../../warehouse/decoding/included.ts';
import { decodeDocument, decodeWith, type Resource } from '../../../../warehouse/decoding/jsonapi.ts';
import { authorizationItemSchema, authorizationSchema } from '../../../../warehouse/decoding/v3-returns.ts';
import { authorizations } from '../../../streams/authorizations.ts';
import { NotThereError, type PushContext, type Pushed } from '../../payload/kind.ts';

/**
 * What the answer to an announcement, or to its replacement, says.
 * @param replaced id of the announcement that was replaced
 */
export function announced(operation: string, body: string, replaced: number | null): Pushed {
  const document = decodeDocument(operation, body, 'single');
  const resource = withAllIncluded(document.data[0] ?? null, indexIncluded(document.included)) as Resource;
  const read = decodeWith(authorizationSchema, resource);
  if ('problem' in read) throw undecodableAnswer(`${operation}: ${read.problem.path}: ${read.problem.reason}`);
  const { id, attributes, relationships } = read.value;
  if (replaced !== null && id !== replaced) throw undecodableAnswer(`${operation}: the answer is of another`);
  const ids = relationships.returnMerchandiseAuthorizationItems;
  const found = findChildren(resource, 'returnMerchandiseAuthorizationItem', ids, new Map()).resources;
  const items = found.flatMap((item) => {
    const line = decodeWith(authorizationItemSchema, item);
    return 'problem' in line ? [] : [{ id: line.value.id, shipmentItemId: line.value.relationships.shipmentItem }];
  });
  return {
    result: { returnMerchandiseAuthorizationId: id, status: attributes.status, items },
    reading: { stream: authorizations, resource, escaped: document.escaped },
  };
}

/** Id of the announcement that is meant: the one named, else the one with the row's reference. @throws NotThereError */
export function announcedId(named: number | null | undefined, { row }: PushContext): number {
  const id = named ?? row.knownId;
  if (named === undefined || named === null) {
    if (row.knownCount > 1)
      throw new NotThereError(
        `${row.knownCount} announced returns have the reference ${row.reference}; name one by returnMerchandiseAuthorizationId`,
      );
  }
  if (id !== null) return id;
  throw new NotThereError(
    `no announced return with the reference ${row.reference} is known here; name it by returnMerchandiseAuthorizationId`,
  );
}
