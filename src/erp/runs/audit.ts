import type { Kysely } from 'kysely';
import type { DB } from '../generated/tables.ts';

/** What an operator did, or the daemon put right by itself. */
export interface AuditEntry {
  /** Worker, or who called the command. */
  readonly by: string;
  readonly action:
    | 'paused'
    | 'resumed'
    | 'run_requested'
    | 'identity_accepted'
    | 'database_accepted'
    | 'schedulers_set'
    | 'pruned'
    | 'outbox_retry'
    | 'outbox_done'
    | 'outbox_cancel'
    | 'outbox_replace'
    | 'outbox_reveal';
  /** Null: not about one client. */
  readonly client: string | null;
  readonly detail: string;
}

/** Appends to sync.audit. */
export async function recordAudit(db: Kysely<DB>, { by, action, client, detail }: AuditEntry): Promise<void> {
  await db.insertInto('sync.audit').values({ by, action, client, detail }).execute();
}

/** An entry with its time. */
export interface AuditRow extends Omit<AuditEntry, 'action'> {
  readonly at: Date;
  /** Also of other versions. */
  readonly action: string;
}

/** The latest entries, newest first. */
export async function readAudit(db: Kysely<DB>, limit: number): Promise<AuditRow[]> {
  return db
    .selectFrom('sync.audit')
    .select(['at', 'by', 'action', 'client', 'detail'])
    .orderBy('at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}
