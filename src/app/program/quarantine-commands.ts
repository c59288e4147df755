import type { Command } from 'commander';
import type { QuarantineOptions } from '../commands/quarantine.ts';
import { setExitCode, streams } from './options.ts';

/** Adds the commands `quarantine …`. */
export function addQuarantineCommands(cli: Command): void {
  const quarantine = cli
    .command('quarantine')
    .description('show or replay the resources that could not be decoded or stored')
    .addHelpText('after', '\nExample:\n  fulfilment-sync quarantine list');
  quarantine
    .command('list')
    .description('show the resources in quarantine, with the member that is wrong')
    .option('--client <key>', 'only this client')
    .option('--stream <stream>', `only this stream: ${streams.join(', ')}`)
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  fulfilment-sync quarantine list --stream shipments')
    .action(async (options: QuarantineOptions) =>
      setExitCode((await import('../commands/quarantine.ts')).quarantineListCommand(options)),
    );
  quarantine
    .command('show')
    .description('show one resource in full; it may contain personal data')
    .argument('<number>', 'number of the row, as list shows it')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  fulfilment-sync quarantine show 7')
    .action(async (number: string, options: QuarantineOptions) =>
      setExitCode((await import('../commands/quarantine.ts')).quarantineShowCommand(number, options)),
    );
  quarantine
    .command('replay')
    .description('decode the resources in quarantine again, after an upgrade')
    .argument('[stream]', streams.join(', '))
    .option('--client <key>', 'only this client')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  fulfilment-sync quarantine replay shipments')
    .action(async (stream: string | undefined, options: QuarantineOptions) =>
      setExitCode((await import('../commands/quarantine-replay.ts')).quarantineReplayCommand(stream, options)),
    );
}
