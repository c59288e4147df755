/**
 * The jobs that pull something other than a stream (service lists, stock, track-trace), and retention. Each job commits its
 * result together with its entry in the ledger.
 */

import { toStopError } from '../../core/errors.ts';
import { pruneTargets } from '../../erp/maintenance/prune-rows.ts';
import { recordAudit } from '../../erp/runs/audit.ts';
import { underLease } from '../../erp/runs/leases.ts';
import { type PullContext, warn } from '../run/pull-context.ts';
import { eraseAged } from './erase-aged.ts';

/** Maximum number of rows that one transaction deletes. Short transactions do not block others. */
const batchSize = 2_000;

/**
 * Deletes data older than RETENTION_DAYS of all clients, in small batches. Rows that mirror the service are never
 * deleted. Each client has a run, and the first one does the work for all. Then erases personal data of its own client
 * that is older than PERSONAL_DATA_DAYS.
 */
export async function prune(context: PullContext): Promise<void> {
  const { db, run, retentionDays, signal } = context;
  const { totals } = context.state;
  const counts: string[] = [];
  for (const { name, prune } of pruneTargets) {
    let removed = 0;
    for (let last = batchSize; last === batchSize; ) {
      if (signal.aborted) throw toStopError(signal);
      last = await underLease(db, run.lease, (trx) => prune(trx, retentionDays, batchSize));
      removed += last;
    }
    totals.removed += removed;
    if (removed > 0) counts.push(`${name} ${removed}`);
    // These resources never reached the tables, so an operator should know.
    if (removed > 0 && name === 'sync.quarantine')
      warn(context, `removed ${removed} resources from quarantine that were not met for ${retentionDays} days`);
  }
  if (counts.length > 0)
    await recordAudit(db, { by: run.worker, action: 'pruned', client: null, detail: counts.join(', ') });
  await eraseAged(context);
}
