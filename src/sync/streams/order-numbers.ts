import { appendChanges } from '../../erp/mirror/feed.ts';
import { fillOrderNumbers, lackOrderNumbers } from '../../erp/resources/shipment-rows.ts';
import { underLease } from '../../erp/runs/leases.ts';
import { recordProgress } from '../../erp/runs/ledger.ts';
import type { PullContext } from '../run/pull-context.ts';

const batchSize = 5_000;

/**
 * Fills the external order number of shipments that lack it, if their order is stored. Runs at the end of
 * pull-shipments and of pull-orders, because either of them may be the second to store its part.
 */
export async function repairOrderNumbers(context: PullContext): Promise<void> {
  const { client, db, run } = context;
  const { totals } = context.state;
  if (!(await lackOrderNumbers(db, client))) return;
  for (let filled = batchSize; filled === batchSize; ) {
    filled = await underLease(db, run.lease, async (trx) => {
      const changes = await fillOrderNumbers(trx, client, batchSize);
      if (changes.length === 0) return 0;
      await recordProgress({ trx, run }, { ...totals, updated: totals.updated + changes.length });
      await appendChanges(trx, client, changes);
      return changes.length;
    });
    totals.updated += filled;
  }
}
