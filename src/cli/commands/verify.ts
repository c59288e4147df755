import { readFileSync, writeFileSync } from 'node:fs';
import { styleText } from 'node:util';
import type { Command } from 'commander';
import { type Config, readConfig, replaceClients } from '../../../config/env.ts';
import { toIdentity, type WarehouseClient } from '../../../config/files.ts';
import type { Operation, Operations } from '../../../config/operations.ts';
import { describeError } from '../../core/errors.ts';
import { isObject, type Json, parseExact } from '../../core/json.ts';
import { silentLogger } from '../../core/logger.ts';
import { toVisible } from '../../core/quote.ts';
import { connectDatabase, connectForWriting, toAddress } from '../../db/connect.ts';
import { finishTrackTraceTurn, takeTrackTraceTurn } from '../../pull/track-trace.ts';
import { readListLagOf } from '../../push/sql/look-ups.ts';
import { openRawClient } from '../../service/open-warehouses.ts';
import {
  addCommand,
  asJson,
  type CommonOptions,
  confirm,
  exitWith,
  printError,
  printJson,
  printStyled,
  selectClients,
  UsageError,
} from '../command-line.ts';
import type { VerifiedPromise, VerifyContext, VerifyVerdict } from '../verify/check.ts';
import { createGoodsChecks } from '../verify/goods-checks.ts';
import { readOnlyChecks, runChecks, tokenCheck } from '../verify/read-checks.ts';
import { Service } from '../verify/service.ts';
import { createOrderChecks } from '../verify/write-checks.ts';
import { WriteSession } from '../verify/write-session.ts';

/** Entries of WAREHOUSE_OPERATIONS_FILE by operation. */
type Entries = Readonly<Record<string, object>>;

/** Everything that `service verify` found. */
export interface Report {
  readonly judgements: readonly VerifiedPromise[];
  /** Environment variables to set. */
  readonly variables: Readonly<Record<string, string>>;
  /** Entries of WAREHOUSE_OPERATIONS_FILE to set, with the method and path that each needs. */
  readonly operations: Entries;
  /** What remains at the service, in words. */
  readonly left: readonly string[];
}

function makeReport(
  judgements: readonly VerifiedPromise[],
  left: readonly string[],
  inUse: Operations,
): Report {
  const variables: Record<string, string> = {};
  const operations: Record<string, Partial<Operation>> = {};
  for (const setting of judgements.flatMap(({ settings }) => settings)) {
    if (setting.kind === 'variable') variables[setting.name] = setting.value;
    else {
      const { method, path } = inUse[setting.operation];
      operations[setting.operation] = {
        method,
        path,
        ...operations[setting.operation],
        ...setting.entry,
      };
    }
  }
  return { judgements, variables, operations, left };
}

const looks = { differs: 'red', 'cannot tell': 'yellow', holds: 'green' } as const;
const verdicts = Object.keys(looks) as VerifyVerdict[];

/**
 * Formats a report: what differs first, then what is unknown, then what holds, then the settings.
 */
function formatReport({ judgements, variables, operations, left }: Report): string {
  const hasSeveral = new Set(judgements.map(({ client }) => client)).size > 1;
  const select = (wanted: VerifyVerdict) => judgements.filter(({ verdict }) => verdict === wanted);
  const lines = verdicts
    .flatMap(select)
    .map(({ client, verdict, id, section, assumption, evidence }) => {
      const name = `${hasSeveral ? `${client}: ` : ''}${id} (${section})`;
      const mark = styleText(looks[verdict], verdict.padEnd(11));
      const head = `${mark}  ${name}: ${toVisible(evidence)}`;
      return verdict === 'differs' ? `${head}\n${' '.repeat(13)}assumed: ${assumption}` : head;
    });
  for (const [name, value] of Object.entries(variables)) lines.push('', `Set ${name}: ${value}`);
  if (Object.keys(operations).length > 0)
    lines.push('', 'Set in WAREHOUSE_OPERATIONS_FILE:', JSON.stringify(operations, null, 2));
  if (left.length > 0) lines.push('', 'Left at the service:');
  for (const words of left) lines.push(`  ${toVisible(words)}`);
  const counts = (['holds', 'differs', 'cannot tell'] as const).map(
    (one) => `${one}: ${select(one).length}`,
  );
  return [...lines, '', counts.join(', ')].join('\n');
}

/**
 * Writes a file for WAREHOUSE_OPERATIONS_FILE: the entries of the file in use, with those that
 * checks found.
 */
function writeEntries(file: string, inUse: string | undefined, found: Entries): void {
  const kept: Json = inUse === undefined ? {} : parseExact(readFileSync(inUse, 'utf8'));
  const before = (isObject(kept) ? kept : {}) as Entries;
  const merged = Object.entries(found).map(([name, entry]) => [
    name,
    { ...before[name], ...entry },
  ]);
  try {
    writeFileSync(
      file,
      `${JSON.stringify({ ...before, ...Object.fromEntries(merged) }, null, 2)}\n`,
    );
  } catch (cause) {
    throw new UsageError(`${file} cannot be written: ${describeError(cause)}`);
  }
}

interface VerifyOptions extends CommonOptions {
  readonly baseUrl?: string;
  readonly username?: string;
  readonly passwordFile?: string;
  readonly askTrackTrace?: boolean;
  readonly allowWrites?: boolean;
  readonly allowGoodsWrites?: boolean;
  readonly sku?: string;
  readonly writeOperations?: string;
}

const orderWarning =
  'This places up to 21 orders on hold at the service, with numbers that hold VERIFY-, ' +
  'changes one of them, adds documents to it, releases another, and cancels all of them. ' +
  'The service keeps cancelled orders in its lists.';
const goodsWarning =
  'This announces one piece of a shipped shipment as a return, and removes it. It announces one ' +
  'piece of goods, up to twice, which nobody can cancel: tell the warehouse that nothing comes.';

/**
 * Asks a service which assumptions of docs/assumptions.md hold there, and prints the configuration
 * for those that do not.
 */
async function verifyCommand(options: VerifyOptions): Promise<number> {
  const config = readConfig({ database: false, clients: true }, chooseEnvironment(options));
  const clients = selectClients(config, options.client);
  const warnings = [
    ...(options.allowWrites ? [orderWarning] : []),
    ...(options.allowGoodsWrites ? [goodsWarning] : []),
  ];
  if (warnings.length > 0) {
    printError(
      `${warnings.join('\n')}\n` +
        `For ${clients.map(({ key, baseUrl }) => `${key} at ${baseUrl.href}`).join(', ')}.`,
    );
    if (!options.yes && !process.stdin.isTTY)
      throw new UsageError('Writing needs --yes if nobody can be asked');
    if (!options.yes) await confirm('', 'Nothing was asked and nothing was written');
  }
  const { judgements, left } = await verifyClients(config, clients, options);
  const report = makeReport(judgements, left, config.operations);
  if (options.json) printJson(report);
  else printStyled(formatReport(report));
  if (options.writeOperations !== undefined)
    writeEntries(options.writeOperations, config.WAREHOUSE_OPERATIONS_FILE, report.operations);
  const isProblem = ({ id, verdict }: VerifiedPromise) =>
    verdict === 'differs' || (id === tokenCheck.id && verdict !== 'holds');
  return judgements.some(isProblem) ? 1 : 0;
}

/**
 * Returns the environment with the service that the options name; undefined: as it is, with the
 * configured clients.
 */
function chooseEnvironment({
  baseUrl,
  username,
  passwordFile,
  client,
}: VerifyOptions): NodeJS.ProcessEnv | undefined {
  if (baseUrl === undefined && (username !== undefined || passwordFile !== undefined))
    throw new UsageError('--username and --password-file need --base-url');
  if (baseUrl === undefined) return undefined;
  if (username === undefined) throw new UsageError('--base-url needs --username');
  if (client !== undefined) throw new UsageError('Give either --base-url or --client');
  return replaceClients({ baseUrl, username, passwordFile });
}

type Found = Pick<Report, 'judgements' | 'left'>;

/**
 * Verifies the clients one after the other. SIGINT and SIGTERM end the checks; what was placed is
 * cancelled.
 */
async function verifyClients(
  config: Config,
  clients: readonly WarehouseClient[],
  options: VerifyOptions,
) {
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
  const found: Found[] = [];
  try {
    for (const client of clients)
      found.push(await verifyClient(config, client, options, stop.signal));
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
  return {
    judgements: found.flatMap(({ judgements }) => judgements),
    left: found.flatMap(({ left }) => left),
  };
}

/**
 * Returns a function that reads how long the lists of a client's service have lagged, as its
 * workers measured it.
 */
function makeLagReader(config: Config, client: WarehouseClient): VerifyContext['readListLag'] {
  if (config.DATABASE_URL === undefined) return null;
  return async () => {
    const { db, close } = connectDatabase(toAddress(config), silentLogger, {
      name: 'verify',
      max: 1,
    });
    try {
      return await readListLagOf(db, toIdentity(client));
    } finally {
      await close();
    }
  };
}

/** Returns a function that asks for the track-trace list in a turn that workers take. */
function askInTurn(config: Config, client: WarehouseClient): VerifyContext['askTrackTrace'] {
  if (config.DATABASE_URL === undefined) return (ask) => ask();
  return async (ask) => {
    const { db, close } = connectForWriting(toAddress(config), silentLogger);
    try {
      const account = { identity: toIdentity(client), client: client.key };
      const turn = await takeTrackTraceTurn(db, account, config.HTTP_TIMEOUT_MS);
      if (turn instanceof Date)
        return `it was asked less than an hour ago; ask it again after ${turn.toISOString()}`;
      try {
        return await ask();
      } finally {
        await finishTrackTraceTurn(db, turn);
      }
    } finally {
      await close();
    }
  };
}

async function verifyClient(
  config: Config,
  client: WarehouseClient,
  options: VerifyOptions,
  stop: AbortSignal,
): Promise<Found> {
  const { rawClient, close } = openRawClient(config, client);
  const service = new Service(rawClient, config.operations);
  const session = new WriteSession(service, options.sku ?? null);
  const checks = [
    ...readOnlyChecks,
    ...(options.allowWrites ? createOrderChecks(session) : []),
    ...(options.allowGoodsWrites ? createGoodsChecks(session) : []),
  ];
  const context = {
    client,
    service,
    askTrackTrace: options.askTrackTrace ? askInTurn(config, client) : null,
    readListLag: makeLagReader(config, client),
  };
  try {
    const judgements = await runChecks(checks, context, stop);
    return { judgements, left: await session.cleanUp() };
  } finally {
    // After an error or a stop there is no report.
    for (const words of await session.cleanUp()) printError(`Left at the service: ${words}`);
    await close();
  }
}

/** Adds `service verify`, which asks a service how it differs from docs/assumptions.md. */
export function addServiceCommand(cli: Command): void {
  const example = 'fulfilment-sync service verify';
  const service = addCommand(cli, {
    name: 'service',
    description: 'ask the service what interface.md does not say',
    examples: example,
  });
  addCommand(service, {
    name: 'verify',
    description:
      'ask a service which of our assumptions hold there, ' +
      'and print the configuration for those that do not',
    examples: `WAREHOUSE_PASSWORD_FILE=secret ${example} --base-url https://… --username shop`,
    notes: 'Exits with 1 if something differs, or there is no token.',
  })
    .option('--base-url <url>', 'the service; without it, the configured clients')
    .option('--username <name>', 'user name at --base-url')
    .option(
      '--password-file <file>',
      'password at --base-url, if WAREHOUSE_PASSWORD or its _FILE is not set',
    )
    .option('--client <key>', 'only this configured client')
    .option(
      '--ask-track-trace',
      'also ask for the track-trace list, which the service gives once an hour; ' +
        'with DATABASE_URL, not before the workers may',
    )
    .option('--allow-writes', 'also place orders on hold, change and release some, and cancel them')
    .option(
      '--allow-goods-writes',
      'also announce a return and goods of one piece; the goods cannot be cancelled',
    )
    .option(
      '--sku <sku>',
      'article of these orders and goods; by default one that the orders of the client name',
    )
    .option('--yes', 'do not ask before writing')
    .option('--write-operations <file>', 'write what was found as a WAREHOUSE_OPERATIONS_FILE')
    .option(...asJson)
    .action(exitWith(verifyCommand));
}
