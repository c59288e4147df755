import type { Json } from '../../core/json.ts';
import { childTable, type MirrorRow, type TableRow } from '../../erp/mirror/tables.ts';
import { findChildren, type IncludedIndex } from '../../warehouse/decoding/included.ts';
import { decodeWith, type Resource } from '../../warehouse/decoding/jsonapi.ts';
import {
  type Address,
  addressSchema,
  type Order,
  type OrderItem,
  orderItemSchema,
  orderSchema,
} from '../../warehouse/decoding/v3-orders.ts';
import { type Decoded, decodeChildren, withoutIncluded } from '../reading/decode.ts';

export const itemTable = childTable('order_items', 'order_id');

/** An order has two addresses, which may be one and the same at the service: told apart by their role. */
export const addressTable = childTable('order_addresses', 'order_id', ['order_id', 'role']);

/** Decodes an order with what was included for it (interface.md, v3 order). */
export function decodeOrder(resource: Resource, onTop: IncludedIndex): Decoded {
  const order = decodeWith(orderSchema, resource);
  if ('problem' in order) return order;
  const { id, relationships } = order.value;
  const found = (type: string, ids: readonly number[] | null) => findChildren(resource, type, ids, onTop);
  const items = found('orderItem', relationships.orderItems);
  const itemRows = decodeChildren('orderItem', items.resources, orderItemSchema, (item, own) => itemRow(id, item, own));
  if ('problem' in itemRows) return itemRows;
  const addresses: MirrorRow[] = [];
  let complete = items.complete;
  for (const role of ['delivery', 'billing'] as const) {
    const address = found('address', idList(relationships[`${role}Address`]));
    const rows = decodeChildren('address', address.resources, addressSchema, (own, raw) =>
      addressRow(id, role, own, raw),
    );
    if ('problem' in rows) return rows;
    addresses.push(...rows.children);
    complete &&= address.complete;
  }
  const { pickUpPoint: linked } = relationships;
  // One that bears no id can only be the one that stands inside its order.
  const pickUpPoint = found('pickUpPoint', linked !== null && linked.id === null ? null : idList(linked?.id ?? null));
  const family = {
    parent: orderRow(order.value, resource, pickUpPoint.resources[0] ?? null),
    children: [
      { table: itemTable.name, rows: itemRows.children, complete: items.complete },
      // A role that is not there now is kept: that an order has no address is not for us to conclude.
      { table: addressTable.name, rows: addresses, complete: false },
    ],
  };
  if (complete && (linked === null || pickUpPoint.resources.length > 0)) return { family };
  return { family, warning: 'an order came without all of its items, addresses and pick-up point' };
}

const idList = (id: number | null) => (id === null ? [] : [id]);

function itemRow(
  orderId: number,
  { id, attributes, relationships }: OrderItem,
  resource: Resource,
): TableRow<'order_items'> {
  return {
    id,
    raw: resource,
    order_id: orderId,
    sku: attributes.sku,
    quantity: attributes.quantity,
    fulfill_from: attributes.fulfillFrom,
    price: attributes.price,
    vat: attributes.vat,
    name: attributes.name,
    channel_identifier: attributes.channelIdentifier,
    metadata: attributes.metadata,
    product_id: relationships.product,
  };
}

function addressRow(
  orderId: number,
  role: string,
  { id, attributes }: Address,
  resource: Resource,
): TableRow<'order_addresses'> {
  return {
    id,
    raw: resource,
    order_id: orderId,
    role,
    first_name: attributes.firstName,
    last_name: attributes.lastName,
    prefix: attributes.prefix,
    street1: attributes.street1,
    postcode: attributes.postcode,
    house_number: attributes.houseNumber,
    house_number_extension: attributes.houseNumberExtension,
    city: attributes.city,
    country_code: attributes.countryCode,
  };
}

function orderRow({ id, attributes, relationships }: Order, resource: Resource, pickUpPoint: Json): TableRow<'orders'> {
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
    pick_up_point_id: relationships.pickUpPoint?.id ?? null,
    preferred_shipping_method_id: relationships.preferredShippingMethod,
    pick_up_point: pickUpPoint,
  };
}
