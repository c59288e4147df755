/** Commands about personal data. They print numbers of rows, never what the rows hold. */

import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { toVisible } from '../../core/quote.ts';
import { type ErasedCounts, eraseOrder } from '../../erp/privacy/erase-orders.ts';
import { type FoundOrder, findOrders } from '../../erp/privacy/find-orders.ts';
import {
  print,
  printError,
  printJson,
  printStyled,
  readOperatorName,
  setExitCode,
  UsageError,
  withDatabase,
} from '../cli/command-line.ts';
import { formatTable } from '../terminal/table.ts';

interface EraseOptions {
  readonly client?: string;
  /** True if the argument is the id of the order at the service, not its number. */
  readonly id?: boolean;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** Erases the personal data of one order. */
async function eraseCommand(name: string, options: EraseOptions): Promise<number> {
  return withDatabase('erase', async (db) => {
    const found = await findOrders(db, options.client ?? null, options.id ? { id: parseId(name) } : { number: name });
    const [order, ...others] = found;
    if (order === undefined) {
      printError(
        `No order ${name} is stored, and no row of the outbox names it; nothing was erased. ` +
          'If the service has it, read it first: fulfilment-sync refetch orders <id>',
      );
      return 1;
    }
    if (others.length > 0) throw new UsageError(describeAmbiguity(name, found));
    const isTrial = options.dryRun ?? false;
    if (!isTrial) await confirm(order, options.yes ?? false);
    const counts = await eraseOrder(db, order, `${readOperatorName()} (erase)`, isTrial);
    if (options.json) printJson({ ...order, dryRun: isTrial, ...counts });
    else printCounts(order, counts, isTrial);
    return 0;
  });
}

function parseId(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new UsageError(`${text} is not the id of an order`);
  return Number(text);
}

function describeAmbiguity(name: string, found: readonly FoundOrder[]): string {
  const clients = new Set(found.map(({ client }) => client));
  const names = found.map(({ client, id, number }) => `${client}: order ${number}${id === null ? '' : `, id ${id}`}`);
  const remedy =
    clients.size > 1 ? 'name the client with --client' : 'name one by its id: fulfilment-sync erase --id <id>';
  return `${name} names ${found.length} orders (${names.join('; ')}); ${remedy}`;
}

/** Asks the person at the terminal, if there is one. @throws UsageError if the person does not agree */
async function confirm({ client, number, id }: FoundOrder, isConfirmed: boolean): Promise<void> {
  if (isConfirmed || !process.stdin.isTTY) return;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const order = `order ${number}${id === null ? '' : ` (id ${id})`} of client ${client}`;
    const question = `This erases the personal data of ${order}. It cannot be undone. Continue? (yes/no) `;
    if ((await terminal.question(toVisible(question))).trim().toLowerCase() !== 'yes')
      throw new UsageError('Nothing was erased');
  } finally {
    terminal.close();
  }
}

function printCounts({ client, number, id }: FoundOrder, { tables, cancelled }: ErasedCounts, isTrial: boolean): void {
  const order = `order ${number}${id === null ? '' : ` (id ${id})`} of client ${client}`;
  const rows = Object.entries(tables).map(([table, count]) => [table, count]);
  if (rows.length === 0) print(`Nothing is left to erase of ${order}.`);
  else {
    print(`${isTrial ? 'This would erase' : 'Erased'} the personal data of ${order}:\n`);
    printStyled(formatTable(['table', 'rows'], rows));
  }
  if (cancelled > 0) print(`\nDead outbox rows ${isTrial ? 'to be ' : ''}cancelled: ${cancelled}`);
  if (!isTrial) print('\nThe service, your backups and your own copies still hold it; see docs/operations.md');
}

/** Adds the command `erase`. */
export function addEraseCommand(cli: Command): void {
  cli
    .command('erase')
    .description('erase the personal data of one order from the database; later readings do not bring it back')
    .argument('<order>', 'external order number')
    .option('--client <key>', 'only this client')
    .option('--id', 'the argument is the id of the order at the service')
    .option('--dry-run', 'show what would be erased, and change nothing')
    .option('--yes', 'do not ask before erasing')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nRows, numbers, articles, quantities, prices and dates stay. The service keeps its own data.' +
        '\nWithout a terminal it does not ask.' +
        '\n\nExamples:\n  fulfilment-sync erase SO-1001 --dry-run\n  fulfilment-sync erase SO-1001 --client default --yes',
    )
    .action((order: string, options: EraseOptions) => setExitCode(eraseCommand(order, options)));
}
