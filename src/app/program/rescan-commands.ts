import type { Command } from 'commander';
import type { BackfillOptions, ReconcileOptions, RescanOptions } from '../commands/rescan.ts';
import { setExitCode, streams } from './options.ts';

/** Adds the commands that read resources again: reconcile, backfill and refetch. */
export function addRescanCommands(cli: Command): void {
  cli
    .command('reconcile')
    .description('compare the lists of the service with the tables, column by column, and heal what differs')
    .argument('<stream>', streams.join(', '))
    .option('--client <key>', 'only this client')
    .option('--accept-missing', 'read the whole list, and mark every row that is not in it as unlisted')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nOrders and return-items: the last 120 days and one slice of older days; the output names them.' +
        '\nOther streams: the whole list.' +
        '\n\nExample:\n  fulfilment-sync reconcile shipments',
    )
    .action(async (stream: string, options: ReconcileOptions) =>
      setExitCode((await import('../commands/rescan.ts')).reconcileCommand(stream, options)),
    );
  cli
    .command('backfill')
    .description('read a span of days again, or everything; polls continue meanwhile')
    .argument('<stream>', streams.join(', '))
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
    .action(async (stream: string, options: BackfillOptions) =>
      setExitCode((await import('../commands/rescan.ts')).backfillCommand(stream, options)),
    );
  cli
    .command('refetch')
    .description('read one resource again by its id; not for streams that the service cannot read by id')
    .argument('<stream>', [...streams, 'return-merchandise-authorizations'].join(', '))
    .argument('<id>', 'id at the service')
    .option('--client <key>', 'only this client')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  fulfilment-sync refetch shipments 1042')
    .action(async (stream: string, id: string, options: RescanOptions) =>
      setExitCode((await import('../commands/rescan.ts')).refetchCommand(stream, id, options)),
    );
}
