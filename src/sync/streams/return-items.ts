import { declareMirrorTable, type TableRow } from '../../erp/mirror/mirror-tables.ts';
import { requestRereads } from '../../erp/pull/rereads.ts';
import { findUnlinkedAuthorizations } from '../../erp/resources/authorization-rows.ts';
import { decodeWith, type Resource } from '../../warehouse/decoding/jsonapi.ts';
import { type ReturnItem, returnItemSchema } from '../../warehouse/decoding/v3.ts';
import { cachePerZone, type DecodedResource, withoutIncluded } from '../reading/decode.ts';
import type { Stream } from '../reading/stream.ts';
import { authorizations, rereadArrivedAuthorizations } from './authorizations.ts';

/**
 * Lines of processed returns. There is no read by id (docs/interface.md, 12.2 Operations), so a quarantined one stays
 * until the list shows it again.
 */
export const returnItems: Stream = {
  name: 'return-items',
  list: 'v3.returnItems.list',
  get: null,
  include: [],
  rescan: {
    filter: 'processedOn',
    dayColumn: 'processed_on',
    dates: ['processed_on'],
    moved: ['processed_on'],
    horizonDays: null,
    recentDays: 120,
    sorted: true,
  },
  passes: {
    // A cursor by id would not do: a return item may be processed long after others with larger ids.
    window: { pass: 'processed', attribute: 'processedOn', column: 'processed_on', firstRunDays: 400 },
    last: rereadArrivedAuthorizations,
  },
  tables: {
    parent: declareMirrorTable('return_items'),
    children: [],
  },
  afterChanges: async (transaction, changes) => {
    const ids = changes.map(({ id }) => id as number);
    const unlinked = ids.length === 0 ? [] : await findUnlinkedAuthorizations(transaction.trx, transaction.client, ids);
    await requestRereads({ ...transaction, stream: authorizations.name }, unlinked, 'a return item of it has arrived');
    return [];
  },
  decoder: cachePerZone((zone) => {
    const schema = returnItemSchema(zone);
    return (resource): DecodedResource => {
      const item = decodeWith(schema, resource);
      if ('problem' in item) return item;
      return { family: { parent: toReturnItemRow(item.value, resource), children: [] } };
    };
  }),
};

function toReturnItemRow({ id, attributes, relationships }: ReturnItem, resource: Resource): TableRow<'return_items'> {
  return {
    id,
    raw: withoutIncluded(resource),
    sku: attributes.sku,
    quantity: attributes.quantity,
    condition: attributes.condition,
    processed_on: attributes.processedOn,
    processed_in: attributes.processedIn,
    restock_in: attributes.restockIn,
    restock_on: attributes.restockOn,
    comment: attributes.comment,
    redeliver: attributes.redeliver,
    external_order_number: attributes.externalOrderNumber,
    order_id: relationships.order,
    order_item_id: relationships.orderItem,
    product_id: relationships.product,
    return_id: relationships.return,
    return_merchandise_authorization_item_id: relationships.returnMerchandiseAuthorizationItem,
    return_reason_id: relationships.returnReason,
    shipment_item_id: relationships.shipmentItem,
  };
}
