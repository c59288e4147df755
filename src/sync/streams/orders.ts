/** The streams. Each is a declaration: list, tables, decoder, and the passes of its poll. */

import { declareMirrorTable } from '../../erp/mirror/mirror-tables.ts';
import { findMissingOrders, renameOrderNumbers } from '../../erp/resources/shipment-rows.ts';
import type { Stream } from '../reading/stream.ts';
import { repairOrderNumbers } from './order-numbers.ts';
import { addressTable, decodeOrder, itemTable } from './order-rows.ts';

/** Orders with their items, addresses and pick-up point. */
export const orders: Stream = {
  name: 'orders',
  list: 'v3.orders.list',
  get: 'v3.orders.get',
  include: ['orderItems', 'deliveryAddress', 'billingAddress', 'pickUpPoint'],
  rescan: {
    filter: 'orderedOn',
    dayColumn: 'ordered_on',
    dates: ['ordered_on'],
    moved: ['ordered_on'],
    horizonDays: null,
    recentDays: 120,
    sorted: false,
  },
  passes: {
    window: { pass: 'placed', attribute: 'orderedOn', column: 'ordered_on', firstRunDays: 400 },
    rereads: {
      until: 'answered',
      absent: 'kept',
      // Orders that shipments refer to, but that the window lacked.
      findMissing: ({ db, client }, limit) => findMissingOrders(db, client, limit),
    },
    last: repairOrderNumbers,
  },
  tables: {
    parent: declareMirrorTable('orders', { pick_up_point: 'pick_up_point_id' }),
    children: [itemTable, addressTable],
  },
  decoder: () => decodeOrder,
  afterRescan: repairOrderNumbers,
  afterChanges: ({ trx, client }, changes) => {
    const renamed = changes.filter(({ operation }) => operation === 'updated');
    return renameOrderNumbers(
      trx,
      client,
      renamed.map(({ id }) => id as number),
    );
  },
};
