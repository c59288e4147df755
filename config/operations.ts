/** The HTTP method of an operation. */
type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/**
 * One operation of the service. `path` is relative to the base URL; `{name}` is replaced by a
 * percent-encoded value. `documented: false` marks a method or path that docs/interface.md does not
 * show, but docs/assumptions.md assumes. The other members are switches (config/switches.ts).
 */
export interface Operation {
  readonly method: Method;
  readonly path: string;
  readonly documented: boolean;
  /** False if the operation is not used unless WAREHOUSE_OPERATIONS_FILE has an entry for it. */
  readonly enabled?: false;
  /**
   * The position of `included` in a request: inside `data` (the default) or at the top of the
   * document.
   */
  readonly included?: 'inside' | 'top';
  /**
   * What is sent for an order without a billing address: a copy of its delivery address (the
   * default), or none.
   */
  readonly billingAddress?: 'copy' | 'omit';
  /**
   * True if a repeated request changes nothing, so that the outbox may send it again after a lost
   * answer. It is assumed that it changes something (docs/assumptions.md).
   */
  readonly repeatable?: boolean;
  /** Members of the payload that the row may leave out (config/optional-members.ts). */
  readonly optional?: readonly string[];
  /** Countries whose delivery addresses need a postcode. */
  readonly postcodeCountries?: readonly string[];
  /** Countries whose delivery addresses need a house number, which may be in the street. */
  readonly houseNumberCountries?: readonly string[];
  /**
   * Attribute that carries the content of an attachment, also of one that is sent with its order.
   */
  readonly contentMember?: string;
  /** Attributes that cancel an order item. */
  readonly attributes?: Readonly<Record<string, unknown>>;
  /**
   * False if `page[size]` is not sent to a list, because docs/interface.md does not show its paging
   * parameters.
   */
  readonly pageSize?: boolean;
  /**
   * Further members of an order that an update takes. It is assumed that it takes none
   * (docs/assumptions.md).
   */
  readonly takes?: readonly TakenMember[];
  /**
   * True if an update sends back the addresses, the pick-up point and the shipping method that it
   * does not change. It is assumed that the service keeps them (docs/assumptions.md).
   */
  readonly sendsRelationships?: boolean;
}

/** The members of an order that `takes` may name. */
export const takenMembers = [
  'deliveryAddress',
  'billingAddress',
  'pickUpPoint',
  'shippingMethod',
  'orderType',
] as const;
export type TakenMember = (typeof takenMembers)[number];

const shown = (method: Method, path: string): Operation => ({ method, path, documented: true });
const assumed = (method: Method, path: string): Operation => ({ method, path, documented: false });
const withoutPageSize = (operation: Operation): Operation => ({ ...operation, pageSize: false });
const optional = (method: Method, path: string): Operation => ({
  ...assumed(method, path),
  enabled: false,
});

/**
 * All operations by name (generation.resource.verb). `WAREHOUSE_OPERATIONS_FILE` overrides methods
 * and paths by these names. An optional operation is used only if that file has an entry for it.
 * Two operations that take an array of shipment ids are left out, because neither their purpose nor
 * their path is known.
 */
export const operations = {
  'common.token': shown('POST', '/token'),
  'common.status.get': shown('GET', '/status/get'),
  'common.settings.get': shown('GET', '/settings/get'),
  'oldest.product.search': shown('POST', '/product/search'),
  'oldest.product.add': shown('POST', '/product/add'),
  'oldest.product.edit': shown('POST', '/product/edit'),
  'oldest.stock.get': shown('GET', '/stock/get/{sku}'),
  'oldest.stock.bulk': optional('GET', '/stock/bulk/{all}'),
  'oldest.order.search': shown('POST', '/order/search'),
  'oldest.order.add': shown('POST', '/order/add'),
  'v2.order.add': assumed('POST', '/v2/order/add'),
  'v2.order.search': assumed('GET', '/v2/order/search'),
  'v2.order.searchByBody': assumed('POST', '/v2/order/search'),
  'v2.order.release': assumed('POST', '/v2/order/release'),
  'v2.shipment.trackTrace': assumed('GET', '/v2/shipment/tracktrace'),
  'v2.shipment.list': assumed('GET', '/v2/shipment/list'),
  'v2.shipment.listByStatus': assumed('GET', '/v2/shipment/list/{status}'),
  'v2.shipment.listByOrderTypes': assumed('POST', '/v2/shipment/list'),
  'v2.shipment.listByOrderTypesAndStatus': assumed('POST', '/v2/shipment/list/{status}'),
  'v2.shipment.search': assumed('POST', '/v2/shipment/search'),
  'v2.rma.add': assumed('POST', '/v2/rma/add'),
  'v2.returnLabel.get': assumed('GET', '/v2/returnlabel/get/{shipmentId}'),
  'v3.orders.list': shown('GET', '/v3/orders'),
  'v3.orders.create': shown('POST', '/v3/orders'),
  'v3.orders.get': shown('GET', '/v3/orders/{id}'),
  'v3.orders.cancel': shown('DELETE', '/v3/orders/{id}'),
  'v3.orders.update': assumed('PATCH', '/v3/orders/{id}'),
  'v3.orderItems.get': shown('GET', '/v3/orderItems/{id}'),
  'v3.orderItems.cancel': assumed('PATCH', '/v3/orderItems/{id}'),
  'v3.orderAttachments.create': shown('POST', '/v3/orderAttachments'),
  'v3.shipments.list': shown('GET', '/v3/shipments'),
  'v3.shipments.get': shown('GET', '/v3/shipments/{id}'),
  'v3.returnMerchandiseAuthorizations.create': assumed(
    'POST',
    '/v3/returnMerchandiseAuthorizations',
  ),
  'v3.returnMerchandiseAuthorizations.get': assumed(
    'GET',
    '/v3/returnMerchandiseAuthorizations/{id}',
  ),
  'v3.returnMerchandiseAuthorizations.replace': assumed(
    'PUT',
    '/v3/returnMerchandiseAuthorizations/{id}',
  ),
  'v3.returnMerchandiseAuthorizations.delete': assumed(
    'DELETE',
    '/v3/returnMerchandiseAuthorizations/{id}',
  ),
  'v3.returnItems.list': withoutPageSize(shown('GET', '/v3/returnItems')),
  'v3.inbounds.list': withoutPageSize(shown('GET', '/v3/inbounds')),
  'v3.inbounds.get': shown('GET', '/v3/inbounds/{id}'),
  'v3.inboundItems.get': shown('GET', '/v3/inboundItems/{id}'),
  'v3.inboundPackingSlips.list': shown('GET', '/v3/inboundPackingSlips'),
  'v3.inboundPackingSlips.create': assumed('POST', '/v3/inboundPackingSlips'),
} as const satisfies Record<string, Operation>;

export type OperationName = keyof typeof operations;

/** The operations in use: the table above with its overrides. */
export type Operations = Readonly<Record<OperationName, Operation>>;
