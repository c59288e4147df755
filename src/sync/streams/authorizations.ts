import { childTable, mirrorTable, type TableRow } from '../../erp/mirror/tables.ts';
import { markUnlisted } from '../../erp/mirror/unlisted.ts';
import { findRequestedRereads } from '../../erp/pull/rereads.ts';
import { findOpenAuthorizations } from '../../erp/resources/authorizations.ts';
import { findChildren } from '../../warehouse/decoding/included.ts';
import { decodeWith, type Resource } from '../../warehouse/decoding/jsonapi.ts';
import {
  type Authorization,
  type AuthorizationItem,
  authorizationItemSchema,
  authorizationSchema,
} from '../../warehouse/decoding/v3-returns.ts';
import { readByIds } from '../paging/by-id.ts';
import { type Decoded, decodeChildren, withoutIncluded } from '../reading/decode.ts';
import type { Mirrored } from '../reading/stream.ts';
import type { PullContext } from '../run/pull-context.ts';

const itemTable = childTable('return_merchandise_authorization_items', 'return_merchandise_authorization_id');

/** Announced returns. There is no list of them (interface.md, v3 return authorizations): answers to pushes bring them. */
export const authorizations: Mirrored = {
  name: 'return-merchandise-authorizations',
  get: 'v3.returnMerchandiseAuthorizations.get',
  include: ['returnMerchandiseAuthorizationItems'],
  tables: {
    parent: mirrorTable('return_merchandise_authorizations'),
    children: [itemTable],
  },
  decoder:
    () =>
    (resource, onTop): Decoded => {
      const read = decodeWith(authorizationSchema, resource);
      if ('problem' in read) return read;
      const { id, relationships } = read.value;
      const type = 'returnMerchandiseAuthorizationItem';
      const found = findChildren(resource, type, relationships.returnMerchandiseAuthorizationItems, onTop);
      const items = decodeChildren(type, found.resources, authorizationItemSchema, (item, own) =>
        itemRow(id, item, own),
      );
      if ('problem' in items) return items;
      const lines = { table: itemTable.name, rows: items.children, complete: found.complete };
      return { family: { parent: parentRow(read.value, resource), children: [lines] } };
    },
};

function parentRow(
  { id, attributes, relationships }: Authorization,
  resource: Resource,
): TableRow<'return_merchandise_authorizations'> {
  return {
    id,
    raw: withoutIncluded(resource),
    external_reference: attributes.externalReference,
    comments: attributes.comments,
    metadata: attributes.metadata,
    status: attributes.status,
    created_on: attributes.createdOn,
    modified_on: attributes.modifiedOn,
    shipment_id: relationships.shipment,
  };
}

function itemRow(
  parentId: number,
  { id, attributes, relationships }: AuthorizationItem,
  resource: Resource,
): TableRow<'return_merchandise_authorization_items'> {
  return {
    id,
    raw: resource,
    return_merchandise_authorization_id: parentId,
    external_reference: attributes.externalReference,
    sku: attributes.sku,
    quantity: attributes.quantity,
    reason_code: attributes.reasonCode,
    metadata: attributes.metadata,
    shipment_item_id: relationships.shipmentItem,
    product_id: relationships.product,
    return_reason_id: relationships.returnReason,
    return_item_id: relationships.returnItem,
  };
}

/**
 * Reads announced returns again until every line has its return item, as nothing lists them. Runs with the daily
 * reconciliation.
 */
export async function rereadAuthorizations(context: PullContext): Promise<void> {
  const { client, db } = context;
  const { name, tables } = authorizations;
  const requested = await findRequestedRereads(db, client, name);
  const open = await findOpenAuthorizations(db, client);
  await readByIds(context, authorizations, [...new Set([...requested, ...open])], {
    beside: async (trx, { absent, readNo }) => {
      const table = { stream: name, table: tables.parent.name };
      return { changes: await markUnlisted(trx, client, table, absent, readNo), result: null };
    },
    unsettled: async () => [],
  });
}
