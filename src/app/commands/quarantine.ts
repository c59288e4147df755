import { streams } from '../../../jobs/registry.ts';
import { listQuarantined, readQuarantined } from '../../erp/quarantine.ts';
import { type Replayed, replayQuarantine } from '../../sync/replay.ts';
import { inColumns } from '../../sync/rescan-jobs.ts';
import type { RunReport } from '../../sync/run.ts';
import { describeEnd, exitCodeFor, inForeground, streamNamed } from '../foreground.ts';
import { runWork } from '../runner.ts';
import { formatTable } from '../table.ts';
import { UsageError } from '../usage.ts';
import { withDatabase } from '../with-database.ts';

export interface QuarantineOptions {
  readonly client?: string;
  readonly stream?: string;
  readonly json?: boolean;
}

/** Shows what is in quarantine, without the resources themselves: they hold personal data. */
export async function quarantineListCommand({ client, stream, json }: QuarantineOptions): Promise<number> {
  if (stream !== undefined) streamNamed(stream);
  const rows = await withDatabase('quarantine', (db) =>
    listQuarantined(db, { client: client ?? null, stream: stream ?? null }),
  );
  if (json) print(JSON.stringify(rows, null, 2));
  else if (rows.length === 0) print('Nothing is in quarantine.');
  else {
    const cells = rows.map((row) => [
      row.id,
      row.client,
      row.stream,
      row.resourceId ?? '-',
      row.memberPath || '-',
      row.reason,
      row.times,
      row.firstSeenAt.toISOString().slice(0, 19),
      row.lastSeenAt.toISOString().slice(0, 19),
    ]);
    print(
      formatTable(['number', 'client', 'stream', 'id', 'member', 'reason', 'times', 'first seen', 'last seen'], cells),
    );
    print('\nOne whole: quarantine show <number>. Again, after an upgrade: quarantine replay [stream]');
  }
  return 0;
}

/** Shows one resource whole, as it was received. */
export async function quarantineShowCommand(number: string, { json }: QuarantineOptions): Promise<number> {
  if (!/^[1-9]\d{0,14}$/.test(number)) throw new UsageError(`${number} is no number of a quarantine row`);
  const row = await withDatabase('quarantine', (db) => readQuarantined(db, Number(number)));
  if (row === null) {
    process.stderr.write(`There is no row ${number} in quarantine; see: fulfilment-sync quarantine list\n`);
    return 1;
  }
  if (json) print(JSON.stringify(row, null, 2));
  else {
    const { document, ...about } = row;
    for (const [name, value] of Object.entries(about))
      print(`${name}: ${value instanceof Date ? value.toISOString() : value}`);
    print(`\n${document}`);
  }
  return 0;
}

/** Decodes what is in quarantine again, of one stream or of all. */
export async function quarantineReplayCommand(name: string | undefined, options: QuarantineOptions): Promise<number> {
  const chosen = name === undefined ? streams : [streamNamed(name)];
  return inForeground(options.client, options.json === true, async ({ deps, clients, stop }) => {
    const reports: RunReport[] = [];
    const results: object[] = [];
    for (const client of clients) {
      const counts = new Map<string, Replayed>();
      const work = {
        name: 'replay',
        nextDue: () => null,
        run: async (context: Parameters<typeof replayQuarantine>[0]) => {
          for (const stream of chosen) counts.set(stream.name, await replayQuarantine(inColumns(context), stream));
        },
      };
      const report = await runWork(deps, work, client, 'manual', stop);
      const error = describeEnd(report);
      if (error !== null && !options.json) print(`${client.key}: ${error}`);
      for (const [stream, { released, kept }] of counts)
        if (!options.json) print(`${client.key} ${stream}: ${released} released, ${kept} kept`);
      const streamCounts = Object.fromEntries(counts);
      results.push({ client: client.key, status: report.status, ...(error ? { error } : {}), streams: streamCounts });
      reports.push(report);
    }
    if (options.json) print(JSON.stringify(results, null, 2));
    return exitCodeFor(reports);
  });
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
