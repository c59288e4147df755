import { Argument, type Command } from 'commander';
import { readDate } from '../../core/time.ts';
import { formatCount } from '../../operate/health/problem.ts';
import { isStored } from '../../operate/sql/stored-rows.ts';
import { replayParcels } from '../../pull/parcels.ts';
import {
  type RefetchResult,
  type ReplayCounts,
  refetch,
  replayQuarantine,
} from '../../pull/refetch.ts';
import { backfillStream, reconcileStream } from '../../pull/rescan.ts';
import { openRescan, type Rescan, wakeJob } from '../../pull/sql/rescans.ts';
import { type Stream, type StreamContext, toRescanContext } from '../../pull/stream.ts';
import { streams } from '../../pull/streams/all-streams.ts';
import { authorizations } from '../../pull/streams/authorizations.ts';
import type { RunContext, RunReport, Work } from '../../schedule/run.ts';
import { runWork } from '../../schedule/runs.ts';
import {
  addCommand,
  asJson,
  type CommonOptions,
  exitWith,
  findStream,
  forClient,
  parseId,
  print,
  printError,
  printJson,
  streamArgument,
  streamNames,
  UsageError,
} from '../command-line.ts';
import {
  type ClientOutcome,
  describeEnd,
  runForClients,
  withForeground,
} from '../with-foreground.ts';

interface RescanOptions extends CommonOptions {
  readonly acceptMissing?: boolean;
  readonly from?: string;
  readonly to?: string;
  readonly background?: boolean;
}

/**
 * Runs work once for each client, and describes the end of its run.
 * @param describe gets the result of the work; null if it failed, was stopped or skipped
 */
function runWorkForClients<T>(
  options: CommonOptions,
  work: Pick<Work, 'name' | 'schedule'>,
  run: (context: RunContext, client: string) => Promise<T>,
  describe: (client: string, report: RunReport, result: T | null) => Omit<ClientOutcome, 'report'>,
): Promise<number> {
  return runForClients(options, async ({ deps, stop }, client) => {
    let result: T | null = null;
    const keepResult: Work['run'] = async (context) => {
      result = await run(context, client.key);
    };
    const request = { client, trigger: 'manual' } as const;
    const report = await runWork(deps, { ...work, run: keepResult }, request, stop);

    const error = describeEnd(report);
    const status = { client: client.key, status: report.status, ...(error !== null && { error }) };
    const outcome = describe(client.key, report, result);
    return { report, ...outcome, json: { ...status, ...outcome.json } };
  });
}

/** Compares one stream at the service with the tables, and heals what differs. */
async function reconcileCommand(name: string, options: RescanOptions): Promise<number> {
  return rescanCommand('reconcile', findStream(name), options, (context) =>
    reconcileStream(context, 'command', options.acceptMissing === true),
  );
}

/**
 * Reads a span of days of one stream again, in this process, or by the workers with `--background`.
 */
async function backfillCommand(name: string, options: RescanOptions): Promise<number> {
  const stream = findStream(name);
  const from = parseDay('--from', options.from);
  const to = parseDay('--to', options.to);
  if (from !== null && to !== null && to < from) throw new UsageError('--to is before --from');

  const background = options.background === true;
  const request = (client: string) =>
    ({ client, stream: name, kind: 'backfill', from, to, background }) as const;
  if (!background)
    return rescanCommand('backfill', stream, options, async (context) =>
      backfillStream(context, await openRescan(context.db, request(context.client))),
    );

  return withForeground(options.client, async ({ deps, clients }) => {
    const requested = [];
    for (const { key } of clients) {
      const { id } = await openRescan(deps.db, request(key));
      await wakeJob(deps.db, key, 'backfill');

      requested.push({ client: key, stream: name, rescan: id });
      if (!options.json)
        print(
          `${key} backfill ${name}: requested as number ${id}; ` +
            'a worker will start it, see: fulfilment-sync status',
        );
    }

    if (options.json) printJson(requested);
    return 0;
  });
}

function parseDay(option: string, text: string | undefined): string | null {
  try {
    return text === undefined ? null : readDate(text);
  } catch {
    throw new UsageError(`${option} ${text} is not a date in the form YYYY-MM-DD`);
  }
}

async function rescanCommand(
  kind: 'reconcile' | 'backfill',
  stream: Stream,
  options: RescanOptions,
  rescan: (context: StreamContext) => Promise<Rescan>,
): Promise<number> {
  // A run that fails or is stopped has a last progress, but no result.
  const latest = new Map<string, Rescan>();

  const run = async (context: RunContext, client: string) => {
    const tell = tellProgress(`${client} ${kind} ${stream.name}`);
    const onProgress = (now: Rescan) => {
      latest.set(client, now);
      tell(now);
    };
    latest.set(client, await rescan({ ...toRescanContext(context, stream), onProgress }));
  };

  return runWorkForClients(options, { name: kind }, run, (client, report) =>
    describeRescan(kind, stream.name, report, latest.get(client) ?? null),
  );
}

function describeRescan(kind: string, stream: string, report: RunReport, rescan: Rescan | null) {
  const {
    pages = null,
    fetched = null,
    missing = null,
    stale = null,
    extra = null,
    windows = null,
  } = rescan ?? {};
  const isReconcile = kind === 'reconcile';

  const extras = isReconcile ? `, extra ${extra}` : '';
  const read = `${fetched} read in ${formatCount(pages ?? 0, 'page')}`;
  const counts = `${read}; missing ${missing}, stale ${stale}${extras}`;
  const parts = [
    describeEnd(report) ?? report.status,
    rescan === null ? '' : `: ${counts}`,
    report.status === 'stopped' ? '; the same command continues from here' : '',
  ];

  const notes = [...(isReconcile ? describeWindows(windows) : []), ...listWarnings(report)];
  const head = `${kind} ${stream}: ${parts.join('')}`;
  const text = [head, ...notes.map((note) => `  ${note}`)].join('\n');
  return { lines: [text], json: { stream, pages, fetched, missing, stale, extra, windows } };
}

const listWarnings = (report: RunReport) =>
  report.status === 'skipped' ? [] : report.totals.warnings;

/**
 * Names the date windows that were compared. The counts 0/0/0 prove nothing about days outside of
 * these windows.
 */
function describeWindows(windows: Rescan['windows'] | null): string[] {
  const byDay = (windows ?? []).filter(({ after, before }) => after !== null || before !== null);
  if (byDay.length === 0) return [];

  const spans = byDay.map(({ after, before }) =>
    before === null ? `all since ${after}` : `${after} to ${before}`,
  );
  return [
    `compared with the service: ${spans.join(', and ')}; ` +
      'the next reconciliation reads the next slice of older days',
  ];
}

/** Reads one resource again by its id. */
async function refetchCommand(name: string, text: string, options: RescanOptions): Promise<number> {
  const stream = name === authorizations.name ? authorizations : findStream(name);
  if (stream.get === null)
    throw new UsageError(
      `The service has no read by id for ${name}; use: backfill ${name} --from <day> --to <day>`,
    );
  const id = parseId(text, 'an id; ids are whole numbers above 0');

  const work = { name: 'refetch', schedule: { kind: 'on-request' } } as const;
  const run = async (context: RunContext) => {
    const found = await refetch(toRescanContext(context, stream), id);
    if (found !== 'unlisted') return found;

    const { db, client } = context;
    return (await isStored(db, stream.tables.parent.name, client, id)) ? found : 'unknown';
  };
  return runWorkForClients(options, work, run, (_, report, found) => {
    if (found !== null)
      return {
        lines: [`${name} ${id}: ${refetchWords[found]}`],
        json: { stream: name, id, found },
      };

    const unread =
      listWarnings(report).join('; ') || 'it could not be decoded: see quarantine list';
    const error = describeEnd(report) ?? `was not read: ${unread}`;
    return {
      lines: [`${name} ${id}: ${error}`],
      json: { stream: name, id, found, error },
      failed: report.status === 'done',
    };
  });
}

const refetchWords: Readonly<Record<RefetchResult | 'unknown', string>> = {
  missing: 'was missing in the tables; stored now',
  stale: 'differed in the tables; healed now',
  unchanged: 'is the same in the tables and at the service',
  unlisted: 'is not known to the service; its stored row is marked as unlisted',
  unknown: 'is not known to the service, and is not stored',
};

/**
 * Decodes the quarantine of one stream, or of all streams, again. Prints how many resources that
 * released.
 */
export async function quarantineReplayCommand(
  name: string | undefined,
  options: CommonOptions,
): Promise<number> {
  const chosen = name === undefined ? streams : [findStream(name)];

  const replay = async (context: RunContext) => {
    const counts: Record<string, ReplayCounts> = {};
    for (const stream of chosen)
      counts[stream.name] = await replayQuarantine(toRescanContext(context, stream));
    // Packages have no stored page to decode again: pull-parcels asks for them once more.
    return { counts, parcels: name === undefined ? await replayParcels(context) : 0 };
  };

  const work = { name: 'replay', schedule: { kind: 'on-request' } } as const;
  return runWorkForClients(options, work, replay, (_, report, result) => {
    const { counts, parcels } = result ?? { counts: {}, parcels: 0 };

    const again = `pull-parcels: looks up ${formatCount(parcels, 'shipment')} again`;
    const released = Object.entries(counts).map(
      ([stream, count]) => `${stream}: ${count.released} released, ${count.kept} kept`,
    );

    const lines = [parcels === 0 ? null : again, describeEnd(report), ...released];
    return { lines: lines.filter((line) => line !== null), json: { streams: counts } };
  });
}

const lineMs = 5_000;

/**
 * Returns a function that writes the progress of a rescan to standard error, every 5 seconds at
 * most.
 */
export function tellProgress(
  label: string,
  write: (line: string) => void = printError,
): (rescan: Rescan) => void {
  // Work that ends before the first interval is over shows no progress.
  let shownAtMs = performance.now();

  return ({ fetched, expected, pages, missing, stale }) => {
    if (performance.now() - shownAtMs < lineMs) return;
    shownAtMs = performance.now();

    // The service may list more resources than the tables held at the beginning.
    const share = expected ? ` ${Math.floor(Math.min(1, fetched / expected) * 100)} %` : '';
    const listPages = `${pages.toLocaleString('en')} ${pages === 1 ? 'page' : 'pages'}`;
    const read = `${fetched.toLocaleString('en')} read in ${listPages}`;
    write(`${label}:${share} ${read}, ${missing + stale} healed`);
  };
}

/** Adds the commands that read resources again: reconcile, backfill and refetch. */
export function addRescanCommands(cli: Command): void {
  addCommand(cli, {
    name: 'reconcile',
    description:
      'compare the lists of the service with the tables, column by column, and heal what differs',
    examples: 'shipments',
    notes:
      'Orders and return-items: the last 120 days and one slice of older days; ' +
      'the output names them.\n' +
      'Other streams: the whole list.',
  })
    .addArgument(streamArgument('<stream>'))
    .option(...forClient)
    .option(
      '--accept-missing',
      'read the whole list, and mark every row that is not in it as unlisted',
    )
    .option(...asJson)
    .action(exitWith(reconcileCommand));

  addCommand(cli, {
    name: 'backfill',
    description: 'read a span of days again, or everything; polls continue meanwhile',
    examples: 'orders --from 2026-01-01 --to 2026-01-31',
    notes: 'Each stream has its own date, such as orderedOn of an order: see docs/architecture.md.',
  })
    .addArgument(streamArgument('<stream>'))
    .option('--from <day>', "first day, YYYY-MM-DD in the client's zone")
    .option('--to <day>', 'last day')
    .option('--background', 'let the workers do it')
    .option(...forClient)
    .option(...asJson)
    .action(exitWith(backfillCommand));

  addCommand(cli, {
    name: 'refetch',
    description:
      'read one resource again by its id; not for streams that the service cannot read by id',
    examples: 'shipments 1042',
  })
    .addArgument(new Argument('<stream>').choices([...streamNames, authorizations.name]))
    .argument('<id>', 'id at the service')
    .option(...forClient)
    .option(...asJson)
    .action(exitWith(refetchCommand));
}
