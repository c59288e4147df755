import { declareChildTable, declareMirrorTable, type TableRow } from '../../erp/mirror/mirror-tables.ts';
import { findRequestedRereads, rereadsPerRun } from '../../erp/pull/rereads.ts';
import { findOpenAuthorizations } from '../../erp/resources/authorization-rows.ts';
import { findChildren } from '../../warehouse/decoding/included.ts';
import { decodeWith, type Resource } from '../../warehouse/decoding/jsonapi.ts';
import {
  type Authorization,
  type AuthorizationItem,
  authorizationItemSchema,
  authorizationSchema,
} from '../../warehouse/decoding/v3.ts';
import { unlist } from '../commit/commit-reading.ts';
import { readByIds } from '../paging/read-by-ids.ts';
import { type DecodedResource, decodeChildren, withoutIncluded } from '../reading/decode.ts';
import type { MirroredResource } from '../reading/stream.ts';
import { mayWait, type PullContext } from '../run/pull-context.ts';

const itemTable = declareChildTable('return_merchandise_authorization_items', 'return_merchandise_authorization_id');

/**
 * Return authorizations, which are announced returns. The service does not list them (docs/interface.md, 11.4
 * Operations). The answers to pushes bring them.
 */
export const authorizations: MirroredResource = {
  name: 'return-merchandise-authorizations',
  get: 'v3.returnMerchandiseAuthorizations.get',
  include: ['returnMerchandiseAuthorizationItems'],
  tables: {
    parent: declareMirrorTable('return_merchandise_authorizations'),
    children: [itemTable],
  },
  decoder:
    () =>
    (resource, onTop): DecodedResource => {
      const read = decodeWith(authorizationSchema, resource);
      if ('problem' in read) return read;
      const { id, relationships } = read.value;
      const type = 'returnMerchandiseAuthorizationItem';
      const found = findChildren(resource, type, relationships.returnMerchandiseAuthorizationItems, onTop);
      const items = decodeChildren(type, found.resources, authorizationItemSchema, (item, raw) =>
        toItemRow(id, item, raw),
      );
      if ('problem' in items) return items;
      const lines = { table: itemTable.name, rows: items.children, complete: found.complete };
      return { family: { parent: toAuthorizationRow(read.value, resource), children: [lines] } };
    },
};

function toAuthorizationRow(
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

function toItemRow(
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
 * Reads announced returns by id until every line has its return item, because no list has them. Runs with the daily
 * reconciliation.
 */
export async function rereadAuthorizations(context: PullContext): Promise<void> {
  const { client, db } = context;
  const requested = await findRequestedRereads(db, client, authorizations.name);
  const open = await findOpenAuthorizations(db, client);
  await readAuthorizations(context, [...new Set([...requested, ...open])]);
}

/** Reads the announced returns whose return items have arrived. Runs with the poll of return items. */
export async function rereadArrivedAuthorizations(context: PullContext): Promise<void> {
  if (!mayWait(context)) return;
  const requested = await findRequestedRereads(context.db, context.client, authorizations.name);
  await readAuthorizations(context, requested.slice(0, rereadsPerRun));
}

async function readAuthorizations(context: PullContext, ids: readonly number[]): Promise<void> {
  await readByIds(context, authorizations, ids, {
    beside: async (transaction, { absent, readNo }) => ({
      changes: await unlist(transaction, authorizations, absent, readNo),
      result: null,
    }),
    unsettled: async () => [],
  });
}
