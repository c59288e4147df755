import type { Json } from '../../core/json.ts';
import { declareChildTable, type MirrorRow, type TableRow } from '../../erp/mirror/mirror-tables.ts';
import { findChildren, type IncludedIndex } from '../../warehouse/decoding/included.ts';
import { decodeWith, type Resource } from '../../warehouse/decoding/jsonapi.ts';
import {
  type Address,
  addressSchema,
  type Order,
  type OrderItem,
  orderItemSchema,
  orderSchema,
} from '../../warehouse/decoding/v3.ts';
import { type DecodedResource, decodeChildren, withoutIncluded } from '../reading/decode.ts';

export const itemTable = declareChildTable('order_items', 'order_id');

/**
 * The delivery and the billing address of an order. The service may use one address for both, so the key has the role.
 */
export const addressTable = declareChildTable('order_addresses', 'order_id', ['order_id', 'role']);

/** Decodes an order with its included resources (docs/interface.md, 7.1 Fields and 7.2 Addresses). */
export function decodeOrder(resource: Resource, onTop: IncludedIndex): DecodedResource {
  const order = decodeWith(orderSchema, resource);
  if ('problem' in order) return order;
  const { id, relationships } = order.value;
  const findIncluded = (type: string, ids: readonly number[] | null) => findChildren(resource, type, ids, onTop);
  const items = findIncluded('orderItem', relationships.orderItems);
  const itemRows = decodeChildren('orderItem', items.resources, orderItemSchema, (item, raw) =>
    toItemRow(id, item, raw),
  );
  if ('problem' in itemRows) return itemRows;
  const addresses: MirrorRow[] = [];
  let complete = items.complete;
  for (const role of ['delivery', 'billing'] as const) {
    const address = findIncluded('address', toIdList(relationships[`${role}Address`]));
    const rows = decodeChildren('address', address.resources, addressSchema, (value, raw) =>
      toAddressRow(id, role, value, raw),
    );
    if ('problem' in rows) return rows;
    addresses.push(...rows.children);
    complete &&= address.complete;
  }
  const { pickUpPoint: linked } = relationships;
  // A pick-up point without an id can only be in the `included` of its order.
  const pickUpPoint = findIncluded(
    'pickUpPoint',
    linked !== null && linked.id === null ? null : toIdList(linked?.id ?? null),
  );
  const family = {
    parent: toOrderRow(order.value, resource, pickUpPoint.resources[0] ?? null),
    children: [
      { table: itemTable.name, rows: itemRows.children, complete: items.complete },
      // A stored address stays if the answer lacks it: the answer does not prove that it is gone.
      { table: addressTable.name, rows: addresses, complete: false },
    ],
  };
  if (complete && (linked === null || pickUpPoint.resources.length > 0)) return { family };
  return { family, warning: 'an order came without all of its items, addresses and pick-up point' };
}

const toIdList = (id: number | null) => (id === null ? [] : [id]);

function toItemRow(
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

function toAddressRow(
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

function toOrderRow(
  { id, attributes, relationships }: Order,
  resource: Resource,
  pickUpPoint: Json,
): TableRow<'orders'> {
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
