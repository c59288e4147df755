import type { Command } from 'commander';
import type { VerifyOptions } from '../commands/verify.ts';
import { setExitCode } from './options.ts';

/** Adds `service verify`, which asks a service how it differs from docs/assumptions.md. */
export function addServiceCommand(cli: Command): void {
  cli
    .command('service')
    .description('ask the service what interface.md does not say')
    .addHelpText('after', '\nExample:\n  fulfilment-sync service verify')
    .command('verify')
    .description('ask a service which of our assumptions hold there, and print the settings for those that do not')
    .option('--base-url <url>', 'the service; without it, the configured clients')
    .option('--username <name>', 'user name at --base-url')
    .option('--password-file <file>', 'password at --base-url, if WAREHOUSE_PASSWORD or its _FILE is not set')
    .option('--client <key>', 'only this configured client')
    .option('--ask-track-trace', 'also ask for the track-trace list, which the service gives once an hour')
    .option('--allow-writes', 'also place orders on hold, change one, and cancel them')
    .option('--sku <sku>', 'article of these orders; by default one that the orders of the client name')
    .option('--yes', 'do not ask before writing')
    .option('--write-operations <file>', 'write the settings that were found as a WAREHOUSE_OPERATIONS_FILE')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExits with 1 if something differs, or there is no token.' +
        '\n\nExample:\n  WAREHOUSE_PASSWORD_FILE=secret fulfilment-sync service verify --base-url https://… --username shop',
    )
    .action(async (options: VerifyOptions) =>
      setExitCode((await import('../commands/verify.ts')).verifyCommand(options)),
    );
}
