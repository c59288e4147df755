import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { type Config, readConfig, replaceClients } from '../../../config/env.ts';
import { toIdentity, type WarehouseClient } from '../../../config/files.ts';
import { toVisible } from '../../core/quote.ts';
import { closeGate, passGate } from '../../erp/runs/gates.ts';
import { toCallSpanMs, toTrackTraceGate, trackTraceGapMs } from '../../sync/pulls/track-trace.ts';
import { print, setExitCode, UsageError } from '../cli/command-line.ts';
import { connectForWriting } from '../deps/database.ts';
import { openRawClient } from '../deps/warehouses.ts';
import { silentLogger } from '../logging/logger.ts';
import { tokenCheck } from '../verify/access-checks.ts';
import type { CheckContext, Judgement } from '../verify/check.ts';
import { collectEntries, collectVariables, formatReport, type Report, writeEntries } from '../verify/report.ts';
import { readOnlyChecks, runChecks } from '../verify/run-checks.ts';
import { Service } from '../verify/service.ts';
import { createWriteChecks } from '../verify/write-checks.ts';
import { WriteSession } from '../verify/write-session.ts';

interface VerifyOptions {
  readonly baseUrl?: string;
  readonly username?: string;
  readonly passwordFile?: string;
  readonly client?: string;
  readonly json?: boolean;
  readonly askTrackTrace?: boolean;
  readonly allowWrites?: boolean;
  readonly yes?: boolean;
  readonly sku?: string;
  readonly writeOperations?: string;
}

const warning =
  'This places up to 19 orders on hold at the service, with numbers that hold VERIFY-, changes one of them, and ' +
  'cancels all of them. The service keeps cancelled orders in its lists.';

/**
 * Asks a service which assumptions of docs/assumptions.md hold there, and prints the configuration for those that do not. It
 * writes nothing at the service unless `allowWrites` is set.
 * @returns 1 if something differs or a client gets no token, else 0
 * @throws UsageError, ConfigError if the options or the configuration are wrong
 */
async function verifyCommand(options: VerifyOptions): Promise<number> {
  const config = readConfig({ database: false, clients: true }, chooseEnvironment(options));
  const clients = config.clients.filter(({ key }) => options.client === undefined || key === options.client);
  if (clients.length === 0)
    throw new UsageError(
      `There is no client ${options.client}; known are ${config.clients.map(({ key }) => key).join(', ')}`,
    );
  if (options.allowWrites) await confirm(clients, options.yes ?? false);
  const verified = await verifyClients(config, clients, options);
  const judgements = verified.flatMap((one) => one.judgements);
  const report: Report = {
    judgements,
    variables: collectVariables(judgements),
    operations: collectEntries(verified.map(({ service }) => service)),
    left: verified.flatMap(({ left }) => left),
  };
  print(options.json ? JSON.stringify(report, null, 2) : toVisible(formatReport(report)));
  if (options.writeOperations !== undefined)
    writeEntries(options.writeOperations, config.WAREHOUSE_OPERATIONS_FILE, report.operations);
  return judgements.some(({ id, verdict }) => verdict === 'differs' || (id === tokenCheck.id && verdict !== 'holds'))
    ? 1
    : 0;
}

/**
 * Returns the environment with the service that the options name; undefined: as it is, with the configured clients.
 * @throws UsageError if options are missing or contradict each other
 */
function chooseEnvironment({ baseUrl, username, passwordFile, client }: VerifyOptions): NodeJS.ProcessEnv | undefined {
  if (baseUrl === undefined && (username !== undefined || passwordFile !== undefined))
    throw new UsageError('--username and --password-file need --base-url');
  if (baseUrl === undefined) return undefined;
  if (username === undefined) throw new UsageError('--base-url needs --username');
  if (client !== undefined) throw new UsageError('Give either --base-url or --client');
  return replaceClients({ baseUrl, username, passwordFile });
}

/** Asks the person at the terminal. @throws UsageError if nobody agrees */
async function confirm(clients: readonly WarehouseClient[], isConfirmed: boolean): Promise<void> {
  const places = clients.map(({ key, baseUrl }) => `${key} at ${baseUrl.href}`).join(', ');
  process.stderr.write(`${warning}\nFor ${places}.\n`);
  if (isConfirmed) return;
  if (!process.stdin.isTTY) throw new UsageError('--allow-writes needs --yes if nobody can be asked');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    if ((await terminal.question('Continue? (yes/no) ')).trim().toLowerCase() !== 'yes')
      throw new UsageError('Nothing was asked and nothing was written');
  } finally {
    terminal.close();
  }
}

interface VerifiedClient {
  readonly judgements: readonly Judgement[];
  /** What remains at the service, in words. */
  readonly left: readonly string[];
  readonly service: Service;
}

/** Verifies the clients one after the other. SIGINT and SIGTERM end the checks; what was placed is cancelled. */
async function verifyClients(config: Config, clients: readonly WarehouseClient[], options: VerifyOptions) {
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
  const verified: VerifiedClient[] = [];
  try {
    for (const client of clients) verified.push(await verifyClient(config, client, options, stop.signal));
    return verified;
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
}

/**
 * Returns a function that asks for the track-trace list of a client through the gate that workers pass. Without a database
 * there is no gate.
 */
function passGateOf({ DATABASE_URL, HTTP_TIMEOUT_MS }: Config, client: WarehouseClient): CheckContext['askTrackTrace'] {
  if (DATABASE_URL === undefined) return (ask) => ask();
  return async (ask) => {
    const { db, close } = connectForWriting(DATABASE_URL, silentLogger);
    try {
      const gate = toTrackTraceGate({ identity: toIdentity(client), client: client.key });
      const passage = await passGate(db, gate, toCallSpanMs(HTTP_TIMEOUT_MS));
      if (!passage.passed)
        return `it was asked less than an hour ago; ask it again after ${passage.opensAt.toISOString()}`;
      try {
        return await ask();
      } finally {
        await closeGate(db, gate, passage.number, trackTraceGapMs);
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
): Promise<VerifiedClient> {
  const { rawClient, close } = openRawClient(config, client);
  // The timeouts of HTTP end each request. A stop ends the checks, but not the cancellations.
  const service = new Service(rawClient, config.operations, new AbortController().signal);
  const session = new WriteSession(service, options.sku ?? null);
  const left: string[] = [];
  let report: Omit<VerifiedClient, 'left'> | null = null;
  try {
    const writes = options.allowWrites ? createWriteChecks(session) : [];
    const replaced = new Set(writes.map(({ replaces }) => replaces));
    const checks = [...readOnlyChecks.filter(({ id }) => !replaced.has(id)), ...writes];
    const context = { client, service, askTrackTrace: options.askTrackTrace ? passGateOf(config, client) : null };
    report = { judgements: await runChecks(checks, context, stop), service };
  } finally {
    left.push(...(await session.cleanUp()));
    // After an error or a stop there is no report.
    if (report === null) for (const words of left) process.stderr.write(`Left at the service: ${words}\n`);
    await close();
  }
  return { ...report, left };
}

/** Adds `service verify`, which asks a service how it differs from docs/assumptions.md. */
export function addServiceCommand(cli: Command): void {
  cli
    .command('service')
    .description('ask the service what interface.md does not say')
    .addHelpText('after', '\nExample:\n  fulfilment-sync service verify')
    .command('verify')
    .description('ask a service which of our assumptions hold there, and print the configuration for those that do not')
    .option('--base-url <url>', 'the service; without it, the configured clients')
    .option('--username <name>', 'user name at --base-url')
    .option('--password-file <file>', 'password at --base-url, if WAREHOUSE_PASSWORD or its _FILE is not set')
    .option('--client <key>', 'only this configured client')
    .option(
      '--ask-track-trace',
      'also ask for the track-trace list, which the service gives once an hour; with DATABASE_URL, not before the workers may',
    )
    .option('--allow-writes', 'also place orders on hold, change one, and cancel them')
    .option('--sku <sku>', 'article of these orders; by default one that the orders of the client name')
    .option('--yes', 'do not ask before writing')
    .option('--write-operations <file>', 'write what was found as a WAREHOUSE_OPERATIONS_FILE')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExits with 1 if something differs, or there is no token.' +
        '\n\nExample:\n  WAREHOUSE_PASSWORD_FILE=secret fulfilment-sync service verify --base-url https://… --username shop',
    )
    .action((options: VerifyOptions) => setExitCode(verifyCommand(options)));
}
