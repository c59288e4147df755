import type { Kysely } from 'kysely';
import type { DB } from './generated/tables.ts';

/** What an entry can say that was done. */
export const auditActions = [
  'paused',
  'resumed',
  'run_requested',
  'identity_accepted',
  'database_accepted',
  'failover_expected',
  'place_accepted',
  'schedulers_set',
  'pruned',
  'erased',
  'outbox_retry',
  'outbox_done',
  'outbox_cancel',
  'outbox_replace',
  'outbox_reveal',
  'quarantine_replayed',
] as const;

/** An action of an operator, or a repair that the workers made by themselves. */
export interface AuditEntry {
  /** The worker, or the person who called the command. */
  readonly by: string;
  readonly action: (typeof auditActions)[number];
  /** Null if the entry does not concern a single client. */
  readonly client: string | null;
  readonly detail: string;
  /** Ids of the first rows of the outbox that it concerns. */
  readonly outboxIds?: readonly number[];
}

/** Appends an entry to sync.audit. */
export async function recordAudit(
  db: Kysely<DB>,
  { by, action, client, detail, outboxIds = [] }: AuditEntry,
): Promise<void> {
  await db
    .insertInto('sync.audit')
    .values({ by, action, client, detail, outbox_ids: [...outboxIds] })
    .execute();
}
