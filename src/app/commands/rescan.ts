import type { Command } from 'commander';
import type { WarehouseClient } from '../../../config/files.ts';
import { readDate } from '../../core/time.ts';
import { openRescan, type Rescan, wakeJob } from '../../erp/rescan/rescans.ts';
import { backfillStream, type RefetchResult, reconcileStream, refetch } from '../../sync/rescan/rescan.ts';
import { withColumnComparison } from '../../sync/rescan/rescan-jobs.ts';
import type { PullContext } from '../../sync/run/pull-context.ts';
import type { RunReport } from '../../sync/run/run.ts';
import { findRefetchable, findStream, setExitCode, streamNames, UsageError } from '../cli/command-line.ts';
import { describeEnd, exitCodeFor, type Foreground, withForeground } from '../cli/with-foreground.ts';
import { runWork } from '../worker/runner.ts';

interface RescanOptions {
  readonly client?: string;
  readonly json?: boolean;
}

interface BackfillOptions extends RescanOptions {
  readonly from?: string;
  readonly to?: string;
  readonly background?: boolean;
}

interface RescanResult {
  readonly client: string;
  readonly stream: string;
  readonly report: RunReport;
  readonly rescan: Rescan | null;
}

interface ReconcileOptions extends RescanOptions {
  readonly acceptMissing?: boolean;
}

/** Compares one stream at the service with the tables, and heals what differs. */
async function reconcileCommand(name: string, options: ReconcileOptions): Promise<number> {
  const accept = options.acceptMissing === true;
  const stream = findStream(name);
  return rescanCommand('reconcile', name, options, (context) => reconcileStream(context, stream, 'command', accept));
}

/** Reads a span of days of one stream again, in this process, or by the workers with `--background`. */
async function backfillCommand(name: string, options: BackfillOptions): Promise<number> {
  const stream = findStream(name);
  const [from, to] = [parseDay('--from', options.from), parseDay('--to', options.to)];
  if (from !== null && to !== null && to < from) throw new UsageError('--to is before --from');
  const background = options.background === true;
  const request = (client: string) => ({ client, stream: name, kind: 'backfill', from, to, background }) as const;
  if (!background) {
    return rescanCommand('backfill', name, options, async (context) =>
      backfillStream(context, stream, await openRescan(context.db, request(context.client))),
    );
  }
  return withForeground(options.client, true, async ({ deps, clients }) => {
    for (const { key } of clients) {
      const { id } = await openRescan(deps.db, request(key));
      await wakeJob(deps.db, key, 'backfill');
      const words = `${key} backfill ${name}: requested as number ${id}; a worker will start it, see: fulfilment-sync status`;
      process.stdout.write(
        options.json ? `${JSON.stringify({ client: key, stream: name, rescan: id })}\n` : `${words}\n`,
      );
    }
    return 0;
  });
}

/**
 * Reads one resource again by its id.
 * @returns 1 if the resource could not be read, else the exit code of the runs
 * @throws UsageError if the service has no read by id for the stream
 */
async function refetchCommand(name: string, id: string, options: RescanOptions): Promise<number> {
  const stream = findRefetchable(name);
  if (stream.get === null) {
    throw new UsageError(`The service has no read by id for ${name}; use: backfill ${name} --from <day> --to <day>`);
  }
  if (!/^[1-9]\d{0,14}$/.test(id)) throw new UsageError(`${id} is not an id; ids are whole numbers above 0`);
  return withForeground(options.client, options.json === true, async ({ deps, clients, stop }) => {
    const reports: RunReport[] = [];
    const results: object[] = [];
    let hasUnread = false;
    for (const client of clients) {
      let found: RefetchResult | null = null;
      const run = async (context: PullContext) => {
        found = await refetch(withColumnComparison(context), stream, Number(id));
      };
      const report = await runWork(
        deps,
        { name: 'refetch', run, schedule: { kind: 'on-request' } },
        client,
        'manual',
        stop,
      );
      hasUnread ||= found === null && report.status === 'done';
      const error = found === null ? (describeEnd(report) ?? describeUnread(report)) : null;
      const words = error ?? (found === null ? '' : refetchWords[found]);
      if (!options.json) process.stdout.write(`${client.key} ${name} ${id}: ${words}\n`);
      const { status } = report;
      results.push({ client: client.key, stream: name, id: Number(id), status, found, ...(error ? { error } : {}) });
      reports.push(report);
    }
    if (options.json) process.stdout.write(`${JSON.stringify(results, null, 2)}\n`);
    return hasUnread ? 1 : exitCodeFor(reports);
  });
}

function describeUnread(report: RunReport): string {
  const warnings = report.status === 'skipped' ? [] : report.totals.warnings;
  const why = warnings.length > 0 ? warnings.join('; ') : 'it could not be decoded: see quarantine list';
  return `was not read: ${why}`;
}

const refetchWords: Readonly<Record<RefetchResult, string>> = {
  missing: 'was missing in the tables; stored now',
  stale: 'differed in the tables; healed now',
  unchanged: 'is the same in the tables and at the service',
  absent: 'is not known to the service; marked as unlisted if it was stored',
};

function parseDay(option: string, text: string | undefined): string | null {
  if (text === undefined) return null;
  try {
    return readDate(text);
  } catch (cause) {
    throw new UsageError(`${option} ${cause instanceof Error ? cause.message : 'is not a date'}`);
  }
}

async function rescanCommand(
  kind: 'reconcile' | 'backfill',
  stream: string,
  options: RescanOptions,
  rescan: (context: PullContext) => Promise<Rescan>,
): Promise<number> {
  return withForeground(options.client, options.json === true, async (foreground) => {
    const results: RescanResult[] = [];
    for (const client of foreground.clients) {
      const result = await rescanOne(foreground, client, kind, stream, rescan);
      if (!options.json) process.stdout.write(`${describeResult(kind, result)}\n`);
      results.push(result);
    }
    if (options.json) process.stdout.write(`${JSON.stringify(results.map(toJsonResult), null, 2)}\n`);
    return exitCodeFor(results.map(({ report }) => report));
  });
}

async function rescanOne(
  { deps, stop }: Foreground,
  client: WarehouseClient,
  kind: 'reconcile' | 'backfill',
  stream: string,
  rescan: (context: PullContext) => Promise<Rescan>,
): Promise<RescanResult> {
  const view = new ProgressView(`${client.key} ${kind} ${stream}`);
  let latest: Rescan | null = null;
  const onProgress = (now: Rescan) => {
    latest = now;
    view.update(now);
  };
  const run = async (context: PullContext) => {
    latest = await rescan({ ...withColumnComparison(context), onProgress });
  };
  const report = await runWork(deps, { name: kind, run }, client, 'manual', stop);
  view.end();
  return { client: client.key, stream, report, rescan: latest };
}

function describeResult(kind: string, { client, stream, report, rescan }: RescanResult): string {
  const end = describeEnd(report);
  const counts =
    rescan === null
      ? ''
      : `${rescan.fetched} read in ${rescan.pages} pages; missing ${rescan.missing}, stale ${rescan.stale}` +
        (kind === 'reconcile' ? `, extra ${rescan.extra}` : '');
  const continuation = report.status === 'stopped' ? '; the same command continues from here' : '';
  const what = [end ?? report.status, counts].filter((text) => text !== '').join(': ');
  const warnings = report.status === 'skipped' ? [] : report.totals.warnings;
  const notes = [...(kind === 'reconcile' && rescan !== null ? describeWindows(rescan) : []), ...warnings];
  return [`${client} ${kind} ${stream}: ${what}${continuation}`, ...notes.map((note) => `  ${note}`)].join('\n');
}

/** Names the date windows that were compared. The counts 0/0/0 prove nothing about days outside of these windows. */
function describeWindows({ windows }: Rescan): string[] {
  const byDay = (windows ?? []).filter(({ after, before }) => after !== null || before !== null);
  if (byDay.length === 0) return [];
  const spans = byDay.map(({ after, before }) => (before === null ? `all since ${after}` : `${after} to ${before}`));
  return [
    `compared with the service: ${spans.join(', and ')}; the next reconciliation reads the next slice of older days`,
  ];
}

function toJsonResult({ client, stream, report, rescan }: RescanResult) {
  const { pages = null, fetched = null, missing = null, stale = null, extra = null, windows = null } = rescan ?? {};
  const error = describeEnd(report);
  const counts = { pages, fetched, missing, stale, extra, windows };
  return { client, stream, status: report.status, ...counts, ...(error === null ? {} : { error }) };
}

/** Adds the commands that read resources again: reconcile, backfill and refetch. */
export function addRescanCommands(cli: Command): void {
  cli
    .command('reconcile')
    .description('compare the lists of the service with the tables, column by column, and heal what differs')
    .argument('<stream>', streamNames.join(', '))
    .option('--client <key>', 'only this client')
    .option('--accept-missing', 'read the whole list, and mark every row that is not in it as unlisted')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nOrders and return-items: the last 120 days and one slice of older days; the output names them.' +
        '\nOther streams: the whole list.' +
        '\n\nExample:\n  fulfilment-sync reconcile shipments',
    )
    .action((stream: string, options: ReconcileOptions) => setExitCode(reconcileCommand(stream, options)));
  cli
    .command('backfill')
    .description('read a span of days again, or everything; polls continue meanwhile')
    .argument('<stream>', streamNames.join(', '))
    .option('--from <day>', "first day, YYYY-MM-DD in the client's zone")
    .option('--to <day>', 'last day')
    .option('--background', 'let the workers do it')
    .option('--client <key>', 'only this client')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nEach stream has its own date, such as orderedOn of an order: see docs/architecture.md.' +
        '\n\nExample:\n  fulfilment-sync backfill orders --from 2026-01-01 --to 2026-01-31',
    )
    .action((stream: string, options: BackfillOptions) => setExitCode(backfillCommand(stream, options)));
  cli
    .command('refetch')
    .description('read one resource again by its id; not for streams that the service cannot read by id')
    .argument('<stream>', [...streamNames, 'return-merchandise-authorizations'].join(', '))
    .argument('<id>', 'id at the service')
    .option('--client <key>', 'only this client')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  fulfilment-sync refetch shipments 1042')
    .action((stream: string, id: string, options: RescanOptions) => setExitCode(refetchCommand(stream, id, options)));
}

const barWidth = 30;
const redrawMs = 100;
const lineMs = 5_000;

/** The stream that a view writes to. It is usually standard error, so that standard output holds only results. */
interface ProgressTarget {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** Shows the progress of a rescan: a bar on a terminal, else a line every 5 seconds. */
export class ProgressView {
  readonly #label: string;
  readonly #target: ProgressTarget;
  // Work that ends before the first interval is over shows no progress.
  #shownAtMs = performance.now();
  #drawn = false;

  constructor(label: string, target: ProgressTarget = process.stderr) {
    this.#label = label;
    this.#target = target;
  }

  update(rescan: Rescan): void {
    const nowMs = performance.now();
    const terminal = this.#target.isTTY === true;
    if (nowMs - this.#shownAtMs < (terminal ? redrawMs : lineMs)) return;
    this.#shownAtMs = nowMs;
    this.#target.write(
      terminal
        ? `\r\u001b[K${describeProgress(this.#label, rescan, true)}`
        : `${describeProgress(this.#label, rescan, false)}\n`,
    );
    this.#drawn = terminal;
  }

  /** Clears the bar, so that the result is printed in its place. */
  end(): void {
    if (this.#drawn) this.#target.write('\r\u001b[K');
  }
}

/**
 * Describes the progress, as in `default shipments [######....] 61 %  6,100 read in 61 pages, 3 healed`. Returns the
 * counts alone if the number of expected rows is not known or 0.
 */
function describeProgress(label: string, rescan: Rescan, withBar: boolean): string {
  const { fetched, expected, missing, stale } = rescan;
  const counts = `${fetched.toLocaleString('en')} read in ${rescan.pages.toLocaleString('en')} pages, ${missing + stale} healed`;
  if (expected === null || expected === 0) return `${label}  ${counts}`;
  // The service may list more resources than the tables held at the beginning.
  const share = Math.min(1, fetched / expected);
  const filled = Math.round(share * barWidth);
  const bar = withBar ? ` [${'#'.repeat(filled)}${'.'.repeat(barWidth - filled)}]` : '';
  return `${label} ${bar} ${Math.floor(share * 100)} %  ${counts}`;
}
