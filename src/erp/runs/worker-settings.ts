import { type Kysely, sql } from 'kysely';
import type { SettingsRecord } from '../../../config/settings/record.ts';
import type { DB } from '../generated/tables.ts';

/** A worker without a sign of life for this time is lost. It gives one every 20 seconds. */
const silentSpan = sql`interval '1 minute'`;

/** The settings of a worker, without secrets. */
export interface WorkerSettings {
  readonly worker: string;
  readonly settings: SettingsRecord;
  /** What is wrong in changed files; the worker keeps its settings. Empty: nothing. */
  readonly refused: readonly string[];
  /** Changed settings that only a restart takes over. */
  readonly restart: readonly string[];
}

/** Records the settings of a worker. */
export async function noteWorkerSettings(db: Kysely<DB>, noted: WorkerSettings, loadedAt: Date): Promise<void> {
  const { worker, refused, restart } = noted;
  const settings = JSON.stringify(noted.settings);
  await sql`
    insert into sync.worker_settings (worker, settings, refused, restart, loaded_at)
    values (${worker}, ${settings}::jsonb, ${refused}::text[], ${restart}::text[], ${loadedAt})
    on conflict (worker) do update
    set settings = excluded.settings, refused = excluded.refused, restart = excluded.restart,
      loaded_at = excluded.loaded_at, seen_at = now()`.execute(db);
}

/** Records a sign of life. Returns false if the worker is not recorded, because another one took it for lost. */
export async function noteWorkerAlive(db: Kysely<DB>, worker: string): Promise<boolean> {
  const { rows } = await sql`
    update sync.worker_settings
    set seen_at = now()
    where worker = ${worker}
    returning worker`.execute(db);
  return rows.length > 0;
}

/** Removes a worker that ends, and those that were lost long ago. */
export async function forgetWorkerSettings(db: Kysely<DB>, worker: string): Promise<void> {
  await sql`
    delete from sync.worker_settings
    where worker = ${worker} or seen_at < now() - interval '1 day'`.execute(db);
}

/** Reads the settings of the workers that are running. */
export async function readWorkerSettings(db: Kysely<DB>): Promise<WorkerSettings[]> {
  const { rows } = await sql<WorkerSettings>`
    select w.worker, w.settings, w.refused, w.restart
    from sync.worker_settings w
    where w.seen_at > now() - ${silentSpan}
    order by w.worker`.execute(db);
  return rows;
}
