import type { Command } from 'commander';
import type { QuarantineOptions } from '../commands/quarantine.ts';
import { finish, oneOf, streams } from './options.ts';

/** `quarantine …` */
export function addQuarantineCommands(cli: Command): void {
  const quarantine = cli
    .command('quarantine')
    .description('resources that could not be decoded, kept whole')
    .addHelpText('after', '\nExample:\n  fulfilment-sync quarantine list');
  quarantine
    .command('list')
    .description('show them, with the member that stands in the way')
    .option('--client <key>', 'only this client')
    .option('--stream <stream>', `only this one: ${streams.join(', ')}`)
    .option('--json', 'for programs')
    .addHelpText('after', '\nExample:\n  fulfilment-sync quarantine list --stream shipments')
    .action(async (options: QuarantineOptions) =>
      finish((await import('../commands/quarantine.ts')).quarantineListCommand(options)),
    );
  quarantine
    .command('show')
    .description('show one whole; it may hold personal data')
    .argument('<number>', 'as list shows it')
    .option('--json', 'for programs')
    .addHelpText('after', '\nExample:\n  fulfilment-sync quarantine show 7')
    .action(async (number: string, options: QuarantineOptions) =>
      finish((await import('../commands/quarantine.ts')).quarantineShowCommand(number, options)),
    );
  quarantine
    .command('replay')
    .description('decode them again, after an upgrade')
    .addArgument(oneOf('[stream]', streams))
    .option('--client <key>', 'only this client')
    .option('--json', 'for programs')
    .addHelpText('after', '\nExample:\n  fulfilment-sync quarantine replay shipments')
    .action(async (stream: string | undefined, options: QuarantineOptions) =>
      finish((await import('../commands/quarantine-replay.ts')).quarantineReplayCommand(stream, options)),
    );
}
