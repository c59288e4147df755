import { readConfig } from '../../../config/env.ts';
import { assertSchemaFits } from '../../erp/migrate.ts';
import { type JobStatus, readJobStatus } from '../../erp/status.ts';
import { connectDatabase } from '../deps.ts';
import { createLogger } from '../log.ts';
import { formatSpan, formatTable } from '../table.ts';
import { version } from '../version.ts';

export interface StatusOptions {
  readonly json?: boolean;
}

export async function statusCommand({ json }: StatusOptions): Promise<number> {
  const config = readConfig({ database: true, clients: false });
  const log = createLogger({ level: 'silent', pretty: false });
  const { db, close } = connectDatabase(config.DATABASE_URL ?? '', log, 'status', 1);
  try {
    await assertSchemaFits(db, version);
    const rows = await readJobStatus(db);
    process.stdout.write(json ? `${JSON.stringify(rows, null, 2)}\n` : `${formatStatus(rows)}\n`);
    return 0;
  } finally {
    await close();
  }
}

/** The table a person reads: how each job stands, and below it what is wrong. */
export function formatStatus(rows: readonly JobStatus[]): string {
  if (rows.length === 0) return 'No job was ever registered here; start a worker with: fulfilment-sync worker';
  const table = formatTable(
    ['client', 'job', 'state', 'last run', 'fetched', 'changed', 'lag', 'quarantined'],
    rows.map((row) => [
      row.client,
      row.job,
      row.running ? 'running' : (row.lastOutcome ?? 'waiting'),
      row.lastStartedAt === null ? '-' : row.lastStartedAt.toISOString().slice(0, 19),
      row.lastFetched,
      row.lastChanged,
      formatSpan(row.lagSeconds),
      row.quarantined,
    ]),
  );
  const notes = rows.flatMap((row) => [
    ...(row.lastError === null
      ? []
      : [`${row.client} ${row.job}: failed ${row.consecutiveFailures} times: ${row.lastError}`]),
    ...row.warnings.map((warning) => `${row.client} ${row.job}: ${warning}`),
  ]);
  return notes.length === 0 ? table : `${table}\n\n${notes.join('\n')}`;
}
