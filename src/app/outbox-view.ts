import type { OutboxStatus } from '../erp/outbox-status.ts';
import type { StoredHold } from '../erp/push-holds.ts';
import { describeProblem, problemsOfOutbox } from './overview/problems.ts';
import { formatSpan, formatTable } from './table.ts';

/** How the outbox of each client stands, and below it what stands in the way. Empty where nothing was ever asked. */
export function formatOutbox(rows: readonly OutboxStatus[], holds: readonly StoredHold[]): string {
  if (rows.length === 0 && holds.length === 0) return '';
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
  const notes = problemsOfOutbox(rows, holds).map(describeProblem);
  return [table, notes.join('\n')].filter((part) => part !== '').join('\n\n');
}
