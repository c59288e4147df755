import { findQuarantinedDue } from '../../erp/quarantine.ts';
import { rereadsPerRun } from '../../erp/rereads.ts';
import { findMissingOrders, renameOrderNumbers } from '../../erp/shipments.ts';
import type { MirrorRow } from '../../erp/upsert.ts';
import { decodeWith, type Resource } from '../../warehouse/jsonapi.ts';
import { type Order, orderSchema } from '../../warehouse/v3.ts';
import { readByIds } from '../by-id.ts';
import { type Decoded, withoutIncluded } from '../decode.ts';
import { repairOrderNumbers } from '../order-numbers.ts';
import { walkWindow } from '../passes.ts';
import type { PullContext, Stream } from '../pull.ts';

const firstRunDays = 400;

export const orders: Stream = {
  name: 'orders',
  list: 'v3.orders.list',
  get: 'v3.orders.get',
  tables: {
    parent: {
      name: 'orders',
      columns: {
        external_order_number: 'text',
        reference: 'text',
        ordered_on: 'date',
        consumer_reference: 'text',
        promotion_code: 'text',
        currency: 'text',
        locale: 'text',
        email: 'text',
        phone_number: 'text',
        vat_number: 'text',
        fulfill_from: 'text',
        preferred_shipping_date: 'date',
        allow_partial_delivery: 'boolean',
        on_hold: 'boolean',
        metadata: 'jsonb',
        channel_identifier: 'text',
        order_type_id: 'bigint',
        delivery_address_id: 'bigint',
        billing_address_id: 'bigint',
        pick_up_point_id: 'bigint',
        preferred_shipping_method_id: 'bigint',
      },
    },
  },
  decoder:
    () =>
    (resource): Decoded => {
      const order = decodeWith(orderSchema, resource);
      if ('problem' in order) return order;
      return { family: { parent: orderRow(order.value, resource), children: [], childrenComplete: false } };
    },
  afterChanges: (trx, client, changes) => {
    const renamed = changes.filter(({ operation }) => operation === 'updated');
    return renameOrderNumbers(
      trx,
      client,
      renamed.map(({ id }) => id),
    );
  },
};

function orderRow({ id, attributes, relationships }: Order, resource: Resource): MirrorRow {
  return {
    id,
    raw: withoutIncluded(resource),
    external_order_number: attributes.externalOrderNumber,
    reference: attributes.reference,
    ordered_on: attributes.orderedOn,
    consumer_reference: attributes.consumerReference,
    promotion_code: attributes.promotionCode,
    currency: attributes.currency,
    locale: attributes.locale,
    email: attributes.email,
    phone_number: attributes.phoneNumber,
    vat_number: attributes.vatNumber,
    fulfill_from: attributes.fulfillFrom,
    preferred_shipping_date: attributes.preferredShippingDate,
    allow_partial_delivery: attributes.allowPartialDelivery,
    on_hold: attributes.onHold,
    metadata: attributes.metadata,
    channel_identifier: attributes.channelIdentifier,
    order_type_id: relationships.orderType,
    delivery_address_id: relationships.deliveryAddress,
    billing_address_id: relationships.billingAddress,
    pick_up_point_id: relationships.pickUpPoint,
    preferred_shipping_method_id: relationships.preferredShippingMethod,
  };
}

/**
 * One poll: orders placed since the watermark less the lookback, then by id those that shipments name and the window did
 * not hold. Its purpose is that every shipment carries its external order number.
 */
export async function pullOrders(context: PullContext): Promise<void> {
  const window = { filter: 'filter[orderedOn][gt]', column: 'ordered_on', firstRunDays };
  const firstLoadDone = await walkWindow(context, orders, 'placed', window, {});
  const missing = await findMissingOrders(context.db, context.client, firstLoadDone ? rereadsPerRun : null);
  const quarantined = await findQuarantinedDue(context.db, context.client, orders.name);
  const ids = [...new Set([...missing, ...quarantined])];
  await readByIds(context, orders, firstLoadDone ? ids.slice(0, rereadsPerRun) : ids, {
    query: '',
    onAbsent: async () => [],
    unsettled: async () => [],
  });
  await repairOrderNumbers(context);
}
