import { toVisible } from '../../core/quote.ts';
import { formatSpan } from '../../core/time.ts';
import { describeProblem } from '../health/find-problems.ts';
import { findOutboxProblems } from '../health/outbox-problems.ts';
import type { Snapshot } from '../health/snapshot.ts';
import { formatTable } from './table.ts';

/** Formats the row counts of each client's outbox, and the problems below. Returns '' if there are neither. */
export function formatOutbox(
  snapshot: Pick<Snapshot, 'outbox' | 'holds' | 'rates' | 'clients' | 'database'>,
  now: Date,
): string {
  const rows = snapshot.outbox;
  const problems = findOutboxProblems(snapshot, now);
  if (rows.length + problems.length === 0) return '';
  const table = formatTable(
    ['client', 'outbox: dead', 'unknown', 'pending', 'sending', 'done 24h', 'oldest'],
    rows.map((row) => [
      row.client,
      row.dead,
      row.unknown,
      row.pending,
      row.sending,
      row.doneLastDay,
      formatSpan(row.oldestSeconds),
    ]),
    { look: (text, heading) => (/dead|unknown/.test(heading) && text !== '0' ? 'red' : null) },
  );
  const notes = problems.map(describeProblem);
  return [table, toVisible(notes.join('\n'))].filter((part) => part !== '').join('\n\n');
}
