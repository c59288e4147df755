import { mirrorTable, type TableRow } from '../../erp/mirror/tables.ts';
import { decodeWith, type Resource } from '../../warehouse/decoding/jsonapi.ts';
import { type ReturnItem, returnItemSchema } from '../../warehouse/decoding/v3.ts';
import { walkWindow } from '../paging/passes.ts';
import { type Decoded, oncePerZone, withoutIncluded } from '../reading/decode.ts';
import type { Stream } from '../reading/stream.ts';
import type { PullContext } from '../run/pull-context.ts';

const firstRunDays = 400;

/** Processed return lines. There is no read by id (interface.md, v3 returnItems), so one in quarantine waits for the list. */
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
  tables: {
    parent: mirrorTable('return_items'),
    children: [],
  },
  decoder: oncePerZone((zone) => {
    const schema = returnItemSchema(zone);
    return (resource): Decoded => {
      const item = decodeWith(schema, resource);
      if ('problem' in item) return item;
      return { family: { parent: returnItemRow(item.value, resource), children: [] } };
    };
  }),
};

function returnItemRow({ id, attributes, relationships }: ReturnItem, resource: Resource): TableRow<'return_items'> {
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

/**
 * One poll: what was processed since the watermark less the lookback. Never by an id cursor: ids are given out when a
 * return is delivered, and some are processed long after later ones.
 */
export async function pullReturnItems(context: PullContext): Promise<void> {
  const window = { filter: 'filter[processedOn][gt]', column: 'processed_on', firstRunDays };
  await walkWindow(context, returnItems, 'processed', window, {});
}
