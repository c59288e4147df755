import { type Kysely, sql } from 'kysely';
import type { AuditEntry } from '../../db/audit.ts';
import type { DB } from '../../db/generated/tables.ts';

/** An audit entry with its time. */
export interface AuditRow extends Omit<Required<AuditEntry>, 'action'> {
  readonly at: Date;
  readonly action: string;
}

/** Which entries are read. A member that is absent does not restrict. */
export interface AuditFilter {
  /** Part of the name of the person or worker. */
  readonly by?: string | undefined;
  readonly action?: string | undefined;
}

/** Reads the latest entries, newest first. */
export async function readAudit(
  db: Kysely<DB>,
  { by, action }: AuditFilter,
  limit: number,
): Promise<AuditRow[]> {
  return db
    .selectFrom('sync.audit')
    .select(['at', 'by', 'action', 'client', 'detail', 'outbox_ids as outboxIds'])
    .$if(by !== undefined, (query) => query.where(sql`position(${by} in by)`, '>', 0))
    .$if(action !== undefined, (query) => query.where('action', '=', String(action)))
    .orderBy('at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}
