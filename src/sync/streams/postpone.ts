import { findStillOpen, type OpenKind, type OpenRow } from '../../erp/pull/open-rows.ts';
import { postponeStillOpen } from '../../erp/pull/rereads.ts';
import { underLease } from '../../erp/runs/leases.ts';
import type { PullContext } from '../run/pull-context.ts';

/**
 * Postpones the rows of `found` that are still open, for example because their status is not documented. Without this,
 * every poll would ask for them.
 */
export async function postponeUnsettled(
  { client, db, run }: PullContext,
  kind: OpenKind,
  found: readonly OpenRow[],
): Promise<void> {
  if (found.length === 0) return;
  const ids = found.map(({ id }) => id);
  const open = new Set(await findStillOpen(db, client, kind, ids));
  const unsettled = found.filter(({ id }) => open.has(id));
  if (unsettled.length === 0) return;
  await underLease(db, run.lease, (trx) => postponeStillOpen({ trx, client, stream: kind.stream }, unsettled));
}

/**
 * Takes ids from the lists in turn, so that a long list does not delay the others.
 * @param limit maximum number of ids; null: no limit
 */
export function interleave(lists: readonly (readonly number[])[], limit: number | null): number[] {
  const longest = Math.max(0, ...lists.map(({ length }) => length));
  const taken = new Set<number>();
  for (let place = 0; place < longest; place++)
    for (const list of lists) {
      const id = list[place];
      if (id === undefined) continue;
      if (limit !== null && taken.size >= limit) return [...taken];
      taken.add(id);
    }
  return [...taken];
}
