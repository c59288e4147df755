/** Commands about personal data. They print numbers of rows, never what the rows hold. */

import type { Command } from 'commander';
import { type ErasedCounts, eraseOrder } from '../../privacy/sql/erase-orders.ts';
import { type ErasableOrder, findErasableOrders } from '../../privacy/sql/order-scope.ts';
import {
  addCommand,
  asJson,
  assertClientKnown,
  type CommonOptions,
  confirm,
  exitWith,
  forClient,
  parseId,
  print,
  printError,
  printJson,
  printStyled,
  readOperatorName,
  UsageError,
  withDatabase,
} from '../command-line.ts';
import { formatTable } from '../table.ts';

interface EraseOptions extends CommonOptions {
  /** True if the argument is the id of the order at the service, not its number. */
  readonly id?: boolean;
  readonly dryRun?: boolean;
}

/** Erases the personal data of one order. */
async function eraseCommand(name: string, options: EraseOptions): Promise<number> {
  return withDatabase('erase', async (db) => {
    const wanted = options.id ? { id: parseId(name, 'the id of an order') } : { number: name };
    const found = await findErasableOrders(db, options.client ?? null, wanted);
    const [order, ...others] = found;
    if (order === undefined) {
      await assertClientKnown(db, options.client);
      printError(
        `No order ${name} is stored, and no row of the outbox names it; nothing was erased. ` +
          'If the service has it, read it first: fulfilment-sync refetch orders <id>',
      );
      return 1;
    }
    if (others.length > 0) throw new UsageError(describeAmbiguity(name, found));

    const isTrial = options.dryRun ?? false;
    // Without a terminal nobody can be asked.
    if (!isTrial && !options.yes && process.stdin.isTTY)
      await confirm(
        `This erases the personal data of ${describeOrder(order)}. It cannot be undone.`,
        'Nothing was erased',
      );

    const counts = await eraseOrder(db, order, `${readOperatorName()} (erase)`, isTrial);
    if (options.json) printJson({ ...order, dryRun: isTrial, ...counts });
    else printCounts(order, counts, isTrial);

    return 0;
  });
}

function describeAmbiguity(name: string, found: readonly ErasableOrder[]): string {
  const clients = new Set(found.map(({ client }) => client));
  const names = found.map(
    ({ client, id, number }) => `${client}: order ${number}${id === null ? '' : `, id ${id}`}`,
  );

  const remedy =
    clients.size > 1
      ? 'name the client with --client'
      : 'name one by its id: fulfilment-sync erase --id <id>';
  return `${name} names ${found.length} orders (${names.join('; ')}); ${remedy}`;
}

const describeOrder = ({ client, number, id }: ErasableOrder) =>
  `order ${number}${id === null ? '' : ` (id ${id})`} of client ${client}`;

function printCounts(
  found: ErasableOrder,
  { tables, cancelled }: ErasedCounts,
  isTrial: boolean,
): void {
  const order = describeOrder(found);
  const rows = Object.entries(tables).map(([table, count]) => ({ table, rows: count }));

  if (rows.length === 0) print(`Nothing is left to erase of ${order}.`);
  else {
    print(`${isTrial ? 'This would erase' : 'Erased'} the personal data of ${order}:\n`);
    printStyled(formatTable(rows));
  }

  if (cancelled > 0) print(`\nDead outbox rows ${isTrial ? 'to be ' : ''}cancelled: ${cancelled}`);
  if (!isTrial)
    print('\nThe service, your backups and your own copies still hold it; see docs/operations.md');
}

/** Adds the command `erase`. */
export function addEraseCommand(cli: Command): void {
  addCommand(cli, {
    name: 'erase',
    description:
      'erase the personal data of one order from the database; later readings do not bring it back',
    examples: 'SO-1001 --dry-run\nSO-1001 --client default --yes',
    notes:
      'Rows, numbers, articles, quantities, prices and dates stay. ' +
      'The service keeps its own data.\n' +
      'Without a terminal it does not ask.',
  })
    .argument('<order>', 'external order number')
    .option(...forClient)
    .option('--id', 'the argument is the id of the order at the service')
    .option('--dry-run', 'show what would be erased, and change nothing')
    .option('--yes', 'do not ask before erasing')
    .option(...asJson)
    .action(exitWith(eraseCommand));
}
