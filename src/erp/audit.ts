import { type Kysely, sql } from 'kysely';
import type { DB } from './rows.ts';

/** What an operator did, or the daemon put right by itself. */
export interface AuditEntry {
  /** Worker, or who called the command. */
  readonly by: string;
  readonly action: 'paused' | 'resumed' | 'identity_accepted' | 'schedulers_set' | 'pruned';
  /** Null: not about one client. */
  readonly client: string | null;
  readonly detail: string;
}

/** Appends to sync.audit. */
export async function recordAudit(db: Kysely<DB>, { by, action, client, detail }: AuditEntry): Promise<void> {
  await sql`insert into sync.audit (by, action, client, detail) values (${by}, ${action}, ${client}, ${detail})`.execute(
    db,
  );
}
