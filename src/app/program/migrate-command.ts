import type { Command } from 'commander';
import type { MigrateOptions } from '../commands/migrate.ts';
import { parseWholeNumber, setExitCode } from './options.ts';

/** Adds `migrate`, which creates or upgrades the schemas. */
export function addMigrateCommand(cli: Command): void {
  cli
    .command('migrate')
    .description('create or upgrade the schemas in the ERP database')
    .option('--wait <seconds>', 'time to wait for a database that is starting (0)', parseWholeNumber)
    .option('--sql', 'print what would run, and change nothing')
    .addHelpText('after', '\nExample:\n  DATABASE_URL=postgres://… fulfilment-sync migrate --wait 60')
    .action(async (options: MigrateOptions) =>
      setExitCode((await import('../commands/migrate.ts')).migrateCommand(options)),
    );
}
