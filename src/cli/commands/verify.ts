import { styleText } from 'node:util';
import type { Command } from 'commander';
import { type Config, readConfig } from '../../../config/env.ts';
import { toIdentity, type WarehouseClient } from '../../../config/files.ts';
import { StoppedError } from '../../core/errors.ts';
import { silentLogger } from '../../core/logger.ts';
import { toVisible } from '../../core/quote.ts';
import { connectForWriting, toAddress } from '../../db/connect.ts';
import { finishTrackTraceTurn, takeTrackTraceTurn } from '../../pull/track-trace.ts';
import { openWarehouses } from '../../service/open-warehouses.ts';
import {
  addCommand,
  asJson,
  type CommonOptions,
  confirm,
  createStopSignal,
  exitWith,
  printError,
  printJson,
  printStyled,
  selectClients,
  UsageError,
} from '../command-line.ts';
import {
  type CheckedAssumption,
  judge,
  type VerifyContext,
  type VerifyVerdict,
} from '../verify/assumption.ts';
import { leadOrder, orderPlan } from '../verify/order-life.ts';
import { readAssumptions, tokenAssumption } from '../verify/reads.ts';

/** Everything that `service verify` found. */
export interface Report {
  readonly judgements: readonly CheckedAssumption[];
  /** What remains at the service, in words. */
  readonly left: readonly string[];
}

const looks = { differs: 'red', 'cannot tell': 'yellow', holds: 'green' } as const;
const verdicts = Object.keys(looks) as VerifyVerdict[];

/** Formats a report: what differs first, then what is unknown, then what holds. */
function formatReport(judgements: readonly CheckedAssumption[]): string {
  const select = (wanted: VerifyVerdict) => judgements.filter(({ verdict }) => verdict === wanted);
  const indent = ' '.repeat(13);

  const lines = verdicts.flatMap(select).map((one) => {
    const mark = styleText(looks[one.verdict], one.verdict.padEnd(11));
    const head = `${mark}  ${one.client}: ${one.id} (${one.section}): ${toVisible(one.evidence)}`;
    if (one.verdict !== 'differs') return head;
    return `${head}\n${indent}assumed: ${one.assumption}\n${indent}to do: ${one.remedy}`;
  });

  const counts = (['holds', 'differs', 'cannot tell'] as const).map(
    (one) => `${one}: ${select(one).length}`,
  );
  return [...lines, '', counts.join(', ')].join('\n');
}

interface VerifyOptions extends CommonOptions {
  readonly askTrackTrace?: boolean;
  readonly allowWrites?: boolean;
  readonly sku?: string;
}

/** Asks a service which assumptions of docs/assumptions.md hold there. */
async function verifyCommand(options: VerifyOptions): Promise<number> {
  const config = readConfig({ database: false, clients: true });
  const clients = selectClients(config, options.client);
  if (options.allowWrites) await askToWrite(clients, options);

  const stop = createStopSignal();
  const judgements: CheckedAssumption[] = [];
  const left: string[] = [];
  const onLeft = (words: string) => {
    left.push(words);
    printError(`Left at the service: ${words}`);
  };

  const { warehouses, close } = openWarehouses(config);
  try {
    for (const client of clients) {
      const warehouse = warehouses.get(client.key);
      if (warehouse === undefined) continue;
      const context = {
        client,
        warehouse: warehouse.withoutRetries(),
        operations: config.operations,
        signal: new AbortController().signal,
        askTrackTrace: options.askTrackTrace ? askInTurn(config, client) : null,
      };
      for (const judgement of await verifyClient(context, options, stop, onLeft))
        judgements.push(judgement);
    }
  } finally {
    await close();
  }

  if (options.json) printJson({ judgements, left });
  else printStyled(formatReport(judgements));
  const isProblem = ({ id, verdict }: CheckedAssumption) =>
    verdict === 'differs' || (id === tokenAssumption.id && verdict !== 'holds');
  return judgements.some(isProblem) ? 1 : 0;
}

/**
 * Says what will be written, and asks.
 * @throws UsageError if the answer is not yes, if nobody can be asked, or for several clients
 */
async function askToWrite(clients: readonly WarehouseClient[], { yes }: VerifyOptions) {
  const [client, ...others] = clients;
  if (client === undefined || others.length > 0)
    throw new UsageError('--allow-writes places one order; name its client with --client');

  printError(`${orderPlan}\nFor ${client.key} at ${client.baseUrl.href}.`);
  if (yes) return;
  if (!process.stdin.isTTY) throw new UsageError('Writing needs --yes if nobody can be asked');
  await confirm('', 'Nothing was written');
}

/**
 * Checks the assumptions one after the other. Without a token, no other is checked: repeated wrong
 * passwords may lock an account.
 * @throws StoppedError if `stop` was aborted
 */
async function verifyClient(
  context: VerifyContext,
  options: VerifyOptions,
  stop: AbortSignal,
  onLeft: (words: string) => void,
): Promise<CheckedAssumption[]> {
  const { key } = context.client;
  const token = await judge(key, tokenAssumption, context);
  if (token.verdict !== 'holds') return [token];

  const judgements = [token];
  for (const assumption of readAssumptions) {
    if (stop.aborted) throw new StoppedError();
    judgements.push(await judge(key, assumption, context));
  }

  const life = options.allowWrites
    ? await leadOrder(context, options.sku ?? null, stop, onLeft)
    : [];
  if (stop.aborted) throw new StoppedError();
  return [...judgements, ...life];
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

/** Adds `service verify`, which asks a service how it differs from docs/assumptions.md. */
export function addServiceCommand(cli: Command): void {
  const service = addCommand(cli, {
    name: 'service',
    description: 'ask the service what interface.md does not say',
    examples: 'verify',
  });
  addCommand(service, {
    name: 'verify',
    description: 'ask a service which of our assumptions hold there',
    notes: 'Exits with 1 if something differs, or there is no token.',
  })
    .option('--client <key>', 'only this configured client')
    .option('--ask-track-trace', 'also ask for the track-trace list, which is given once an hour')
    .option('--allow-writes', 'also place one order on hold, change it, and cancel it')
    .option(
      '--sku <sku>',
      'article of this order; by default one that the orders of the client name',
    )
    .option('--yes', 'do not ask before writing')
    .option(...asJson)
    .action(exitWith(verifyCommand));
}
