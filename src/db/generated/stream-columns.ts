/** Generated from the streams by `npm run golden`. Do not edit it. */

export const streamColumns = {
  order_addresses: {
    first_name: 'null',
    last_name: 'null',
    prefix: 'null',
    street1: 'null',
    postcode: 'area',
    house_number: 'null',
    house_number_extension: 'null',
    city: 'null',
    raw: 'mask',
  },
  order_items: {
    name: 'null',
    metadata: 'null',
    raw: 'mask',
  },
  orders: {
    reference: 'null',
    consumer_reference: 'null',
    promotion_code: 'null',
    email: 'null',
    phone_number: 'null',
    vat_number: 'null',
    metadata: 'null',
    pick_up_point_id: 'null',
    pick_up_point: 'null',
    raw: 'mask',
  },
  return_items: {
    comment: 'null',
    raw: 'mask',
  },
  return_merchandise_authorization_items: {
    metadata: 'null',
    raw: 'mask',
  },
  return_merchandise_authorizations: {
    comments: 'null',
    metadata: 'null',
    raw: 'mask',
  },
  shipment_items: {
    raw: 'mask',
  },
  shipments: {
    return_label: 'null',
    raw: 'mask',
  },
} as const;
