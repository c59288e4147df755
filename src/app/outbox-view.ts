import type { OutboxStatus } from '../erp/outbox-admin.ts';
import type { StoredHold } from '../erp/push-holds.ts';
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
  );
  const notes = [
    ...holds.map(({ client, kind, reason, untilInMs }) => {
      const what = kind === '' ? 'nothing is pushed' : `no ${kind} is pushed`;
      const next = untilInMs > 0 ? `tried again in ${formatSpan(untilInMs / 1_000)}` : 'being tried again';
      return `${client}: ${what}: ${reason}; ${next}`;
    }),
    ...rows.flatMap(({ client, dead, toDecide }) => [
      ...(dead > 0
        ? [`${client}: ${dead} rows are dead and block what is behind them: outbox list --status dead`]
        : []),
      ...(toDecide > 0 ? [`${client}: ${toDecide} rows wait for a person: outbox list --status unknown`] : []),
    ]),
  ];
  return [table, notes.join('\n')].filter((part) => part !== '').join('\n\n');
}
