import { toVisible } from '../../core/quote.ts';
import { formatSpan } from '../../core/time.ts';
import { describeProblem } from '../health/problems.ts';
import { problemsOfOutbox } from '../health/problems-of-outbox.ts';
import type { Snapshot } from '../health/snapshot.ts';
import { formatTable } from './table.ts';

/** How the outbox of each client stands, and below it what stands in the way. Empty where nothing was ever asked. */
export function formatOutbox(
  snapshot: Pick<Snapshot, 'outbox' | 'holds' | 'rates' | 'clients' | 'database'>,
  now: Date,
): string {
  const rows = snapshot.outbox;
  const problems = problemsOfOutbox(snapshot, now);
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
