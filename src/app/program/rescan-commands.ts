import type { Command } from 'commander';
import type { BackfillOptions, ReconcileOptions, RescanOptions } from '../commands/rescan.ts';
import { finish, oneOf, streams } from './options.ts';

/** Adds the commands that read what polls have read already once more. */
export function addRescanCommands(cli: Command): void {
  cli
    .command('reconcile')
    .description('hold what the service lists against the tables, column by column, and heal what differs')
    .addArgument(oneOf('<stream>', streams))
    .option('--client <key>', 'only this client')
    .option('--accept-missing', 'read the whole list and mark every row that it does not show as gone')
    .option('--json', 'for programs')
    .addHelpText(
      'after',
      '\nOrders and return-items: 120 days and one slice of those before; it says which. The rest: the whole list.' +
        '\n\nExample:\n  fulfilment-sync reconcile shipments',
    )
    .action(async (stream: string, options: ReconcileOptions) =>
      finish((await import('../commands/rescan.ts')).reconcileCommand(stream, options)),
    );
  cli
    .command('backfill')
    .description('read a span of days again, or everything, beside the polls')
    .addArgument(oneOf('<stream>', streams))
    .option('--from <day>', "first day, YYYY-MM-DD in the client's zone")
    .option('--to <day>', 'last day')
    .option('--background', 'leave it to the workers')
    .option('--client <key>', 'only this client')
    .option('--json', 'for programs')
    .addHelpText(
      'after',
      "\nThe days are those of the date that belongs to the stream, such as an order's orderedOn: see docs/streams.md." +
        '\n\nExample:\n  fulfilment-sync backfill orders --from 2026-01-01 --to 2026-01-31',
    )
    .action(async (stream: string, options: BackfillOptions) =>
      finish((await import('../commands/rescan.ts')).backfillCommand(stream, options)),
    );
  cli
    .command('refetch')
    .description('read one resource again by its id, of a stream that the service reads by id')
    .addArgument(oneOf('<stream>', streams))
    .argument('<id>', 'id at the service')
    .option('--client <key>', 'only this client')
    .option('--json', 'for programs')
    .addHelpText('after', '\nExample:\n  fulfilment-sync refetch shipments 1042')
    .action(async (stream: string, id: string, options: RescanOptions) =>
      finish((await import('../commands/rescan.ts')).refetchCommand(stream, id, options)),
    );
}
