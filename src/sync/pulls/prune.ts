import { stopReason } from '../../core/errors.ts';
import { prunables } from '../../erp/maintenance/prune.ts';
import { recordAudit } from '../../erp/runs/audit.ts';
import { underLease } from '../../erp/runs/leases.ts';
import { type PullContext, warn } from '../run/pull-context.ts';

/** Rows deleted in one transaction: short, so that nobody waits for it. */
const batchSize = 2_000;

/**
 * Lets go of what is older than RETENTION_DAYS, of every client, in small steps; what mirrors the service stays. There is a
 * run for each client, of which the first does the work.
 */
export async function prune(context: PullContext): Promise<void> {
  const { db, run, retentionDays, signal } = context;
  const { totals } = context.state;
  const counts: string[] = [];
  for (const { name, prune } of prunables) {
    let removed = 0;
    for (let last = batchSize; last === batchSize; ) {
      if (signal.aborted) throw stopReason(signal);
      last = await underLease(db, run.lease, (trx) => prune(trx, retentionDays, batchSize));
      removed += last;
    }
    totals.removed += removed;
    if (removed > 0) counts.push(`${name} ${removed}`);
    // It never reached the tables, and now it is gone.
    if (removed > 0 && name === 'sync.quarantine')
      warn(context, `${removed} quarantined resources not met for ${retentionDays} days were let go`);
  }
  if (counts.length > 0)
    await recordAudit(db, { by: run.worker, action: 'pruned', client: null, detail: counts.join(', ') });
}
