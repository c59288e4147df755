import type { Command } from 'commander';
import type { EraseOptions } from '../commands/privacy/erase.ts';
import { setExitCode } from './options.ts';

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
    .action(async (order: string, options: EraseOptions) =>
      setExitCode((await import('../commands/privacy/erase.ts')).eraseCommand(order, options)),
    );
}
