import type { WarehouseClient } from '../../../config/files.ts';
import { readDate } from '../../core/time.ts';
import { openRescan, type Rescan, wakeJob } from '../../erp/rescan/rescans.ts';
import { backfillStream, type Refetched, reconcileStream, refetch } from '../../sync/rescan/rescan.ts';
import { inColumns } from '../../sync/rescan/rescan-jobs.ts';
import type { PullContext } from '../../sync/run/pull-context.ts';
import type { RunReport } from '../../sync/run/run.ts';
import { describeEnd, exitCodeFor, type Foreground, inForeground } from '../cli/foreground.ts';
import { streamNamed } from '../cli/stream-named.ts';
import { UsageError } from '../cli/usage.ts';
import { ProgressView } from '../terminal/progress-view.ts';
import { runWork } from '../worker/runner.ts';

export interface RescanOptions {
  readonly client?: string;
  readonly json?: boolean;
}

export interface BackfillOptions extends RescanOptions {
  readonly from?: string;
  readonly to?: string;
  readonly background?: boolean;
}

interface Result {
  readonly client: string;
  readonly stream: string;
  readonly report: RunReport;
  readonly rescan: Rescan | null;
}

export interface ReconcileOptions extends RescanOptions {
  readonly acceptMissing?: boolean;
}

/** Proves one stream and heals what differs. */
export async function reconcileCommand(name: string, options: ReconcileOptions): Promise<number> {
  const accept = options.acceptMissing === true;
  const stream = streamNamed(name);
  return rescanCommand('reconcile', name, options, (context) => reconcileStream(context, stream, 'command', accept));
}

/** Reads a span of one stream again, here or by the workers. */
export async function backfillCommand(name: string, options: BackfillOptions): Promise<number> {
  const stream = streamNamed(name);
  const [from, to] = [dayOption('--from', options.from), dayOption('--to', options.to)];
  if (from !== null && to !== null && to < from) throw new UsageError('--to lies before --from');
  const background = options.background === true;
  const request = (client: string) => ({ client, stream: name, kind: 'backfill', from, to, background }) as const;
  if (!background) {
    return rescanCommand('backfill', name, options, async (context) =>
      backfillStream(context, stream, await openRescan(context.db, request(context.client))),
    );
  }
  return inForeground(options.client, true, async ({ deps, clients }) => {
    for (const { key } of clients) {
      const { id } = await openRescan(deps.db, request(key));
      await wakeJob(deps.db, key, 'backfill');
      const words = `${key} backfill ${name}: asked for as number ${id}; a worker takes it up, see status`;
      process.stdout.write(
        options.json ? `${JSON.stringify({ client: key, stream: name, rescan: id })}\n` : `${words}\n`,
      );
    }
    return 0;
  });
}

/** Reads one resource again. */
export async function refetchCommand(name: string, id: string, options: RescanOptions): Promise<number> {
  const stream = streamNamed(name);
  if (stream.get === null) {
    throw new UsageError(`The service has no read by id for ${name}; use: backfill ${name} --from <day> --to <day>`);
  }
  if (!/^[1-9]\d{0,14}$/.test(id)) throw new UsageError(`${id} is no id`);
  return inForeground(options.client, options.json === true, async ({ deps, clients, stop }) => {
    const reports: RunReport[] = [];
    const results: object[] = [];
    let unread = false;
    for (const client of clients) {
      let found: Refetched | null = null;
      const run = async (context: PullContext) => {
        found = await refetch(inColumns(context), stream, Number(id));
      };
      const report = await runWork(deps, { name: 'refetch', run, nextDue: () => null }, client, 'manual', stop);
      unread ||= found === null && report.status === 'done';
      const error = found === null ? (describeEnd(report) ?? unreadBecause(report)) : null;
      const words = error ?? (found === null ? '' : refetched[found]);
      if (!options.json) process.stdout.write(`${client.key} ${name} ${id}: ${words}\n`);
      const { status } = report;
      results.push({ client: client.key, stream: name, id: Number(id), status, found, ...(error ? { error } : {}) });
      reports.push(report);
    }
    if (options.json) process.stdout.write(`${JSON.stringify(results, null, 2)}\n`);
    return unread ? 1 : exitCodeFor(reports);
  });
}

function unreadBecause(report: RunReport): string {
  const warnings = report.status === 'skipped' ? [] : report.totals.warnings;
  const why = warnings.length > 0 ? warnings.join('; ') : 'it could not be decoded: see quarantine list';
  return `was not read: ${why}`;
}

const refetched: Readonly<Record<Refetched, string>> = {
  missing: 'was missing here; stored now',
  stale: 'differed here; healed now',
  unchanged: 'is here as the service has it',
  absent: 'is not known to the service; marked as unlisted where it was stored',
};

function dayOption(option: string, text: string | undefined): string | null {
  if (text === undefined) return null;
  try {
    return readDate(text);
  } catch (cause) {
    throw new UsageError(`${option} ${cause instanceof Error ? cause.message : 'is no date'}`);
  }
}

async function rescanCommand(
  kind: 'reconcile' | 'backfill',
  stream: string,
  options: RescanOptions,
  rescan: (context: PullContext) => Promise<Rescan>,
): Promise<number> {
  return inForeground(options.client, options.json === true, async (foreground) => {
    const results: Result[] = [];
    for (const client of foreground.clients) {
      const result = await rescanOne(foreground, client, kind, stream, rescan);
      if (!options.json) process.stdout.write(`${describeResult(kind, result)}\n`);
      results.push(result);
    }
    if (options.json) process.stdout.write(`${JSON.stringify(results.map(asJson), null, 2)}\n`);
    return exitCodeFor(results.map(({ report }) => report));
  });
}

async function rescanOne(
  { deps, stop }: Foreground,
  client: WarehouseClient,
  kind: 'reconcile' | 'backfill',
  stream: string,
  rescan: (context: PullContext) => Promise<Rescan>,
): Promise<Result> {
  const view = new ProgressView(`${client.key} ${kind} ${stream}`);
  let latest: Rescan | null = null;
  const onProgress = (now: Rescan) => {
    latest = now;
    view.update(now);
  };
  const run = async (context: PullContext) => {
    latest = await rescan({ ...inColumns(context), onProgress });
  };
  const report = await runWork(deps, { name: kind, run }, client, 'manual', stop);
  view.end();
  return { client: client.key, stream, report, rescan: latest };
}

function describeResult(kind: string, { client, stream, report, rescan }: Result): string {
  const end = describeEnd(report);
  const counts =
    rescan === null
      ? ''
      : `${rescan.fetched} read in ${rescan.pages} pages; missing ${rescan.missing}, stale ${rescan.stale}` +
        (kind === 'reconcile' ? `, extra ${rescan.extra}` : '');
  const on = report.status === 'stopped' ? '; the same command goes on from here' : '';
  const what = [end ?? report.status, counts].filter((text) => text !== '').join(': ');
  const warnings = report.status === 'skipped' ? [] : report.totals.warnings;
  const notes = [...(kind === 'reconcile' && rescan !== null ? describeWindows(rescan) : []), ...warnings];
  return [`${client} ${kind} ${stream}: ${what}${on}`, ...notes.map((note) => `  ${note}`)].join('\n');
}

/** What of a stream that is read by day was held against the tables; 0/0/0 proves no more than that. */
function describeWindows({ windows }: Rescan): string[] {
  const byDay = (windows ?? []).filter(({ after, before }) => after !== null || before !== null);
  if (byDay.length === 0) return [];
  const spans = byDay.map(({ after, before }) => (before === null ? `all since ${after}` : `${after} to ${before}`));
  return [`held against the service: ${spans.join(', and ')}; the next one reads the next slice of older days`];
}

function asJson({ client, stream, report, rescan }: Result) {
  const { pages = null, fetched = null, missing = null, stale = null, extra = null, windows = null } = rescan ?? {};
  const error = describeEnd(report);
  const counts = { pages, fetched, missing, stale, extra, windows };
  return { client, stream, status: report.status, ...counts, ...(error === null ? {} : { error }) };
}
