/**
 * The streams. Each has a list, tables, a decoder and a poll. A poll consists of passes, and a failing pass does not
 * stop the others.
 */

import { declareMirrorTable } from '../../erp/mirror/mirror-tables.ts';
import { findQuarantinedDue } from '../../erp/pull/quarantine.ts';
import { findRequestedRereads, rereadsPerRun } from '../../erp/pull/rereads.ts';
import { findMissingOrders, renameOrderNumbers } from '../../erp/resources/shipment-rows.ts';
import { PassRunner } from '../paging/pass-runner.ts';
import { walkWindow } from '../paging/passes.ts';
import { readByIds } from '../paging/read-by-ids.ts';
import type { Stream } from '../reading/stream.ts';
import { mayWait, type PullContext } from '../run/pull-context.ts';
import { repairOrderNumbers } from './order-numbers.ts';
import { addressTable, decodeOrder, itemTable } from './order-rows.ts';
import { interleave } from './postpone.ts';

const firstRunDays = 400;

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

/**
 * Runs one poll. Reads the orders placed since the watermark minus the lookback. Then reads by id the orders that
 * pushes changed, and those that shipments refer to but the window lacked, so that every shipment gets its external
 * order number.
 */
export async function pullOrders(context: PullContext): Promise<void> {
  const window = { filter: 'filter[orderedOn][gt]', column: 'ordered_on', firstRunDays };
  const passes = new PassRunner(context);
  const walked = await passes.run(() => walkWindow(context, orders, 'placed', window, {}));
  await passes.run(() => readMissing(context, walked?.firstLoadDone ?? true));
  await repairOrderNumbers(context);
  passes.end();
}

/**
 * Reads orders by id: those that pushes changed, those that shipments refer to but are not stored, and quarantined
 * ones.
 */
async function readMissing(context: PullContext, firstLoadDone: boolean): Promise<void> {
  const missing = await findMissingOrders(context.db, context.client, firstLoadDone ? rereadsPerRun : null);
  const waits = mayWait(context);
  const quarantined = waits ? await findQuarantinedDue(context.db, context.client, orders.name) : [];
  const requested = waits ? await findRequestedRereads(context.db, context.client, orders.name) : [];
  const ids = interleave([requested, missing, quarantined], firstLoadDone ? rereadsPerRun : null);
  await readByIds(context, orders, ids, {
    beside: async () => ({ changes: [], result: null }),
    unsettled: async () => [],
  });
}
