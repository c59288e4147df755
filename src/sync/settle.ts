import { type OpenKind, type OpenRow, stillOpen } from '../erp/open-rows.ts';
import { postponeStillOpen } from '../erp/rereads.ts';
import { underLease } from '../erp/transaction.ts';
import type { PullContext } from './pull-context.ts';

/**
 * Of rows that lists were asked for and showed, those that are open all the same, as with a status that is not documented:
 * they are asked for again after growing pauses, not with every poll.
 */
export async function postponeUnsettled(
  { client, db, run }: PullContext,
  kind: OpenKind,
  found: readonly OpenRow[],
): Promise<void> {
  if (found.length === 0) return;
  const ids = found.map(({ id }) => id);
  const open = new Set(await stillOpen(db, client, kind, ids));
  const unsettled = found.filter(({ id }) => open.has(id));
  if (unsettled.length === 0) return;
  await underLease(db, run.lease, (trx) => postponeStillOpen(trx, client, kind.stream, unsettled));
}

/**
 * Ids that are to be read, at most `limit`, from each list by turns: none that is long keeps another from being read.
 * @param limit null: all
 */
export function takeByTurns(lists: readonly (readonly number[])[], limit: number | null): number[] {
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
