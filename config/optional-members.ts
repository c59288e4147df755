import type { OperationName } from './operations.ts';

/**
 * Members of payloads that we require although docs/interface.md does not say that the service
 * needs them (docs/assumptions.md). The switch `optional` of the operation makes them optional.
 * `items.sku` is the member `sku` of each entry of `items`.
 */
export const optionalMembers = {
  'v3.orders.create': [
    'locale',
    'items.sku',
    'items.quantity',
    'deliveryAddress.lastName',
    'deliveryAddress.street1',
    'deliveryAddress.countryCode',
    'billingAddress.lastName',
    'billingAddress.street1',
    'billingAddress.countryCode',
  ],
  'v3.orderAttachments.create': ['filename'],
  'v3.returnMerchandiseAuthorizations.create': ['items', 'items.quantity', 'items.reason'],
  'v3.returnMerchandiseAuthorizations.replace': ['items', 'items.quantity', 'items.reason'],
  'v3.inboundPackingSlips.create': [
    'expectedIn',
    'expectedOn',
    'items',
    'items.sku',
    'items.quantity',
  ],
  'oldest.product.add': ['name'],
} as const satisfies Partial<Record<OperationName, readonly string[]>>;
