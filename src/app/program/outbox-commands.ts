import type { Command } from 'commander';
import type { OutboxOptions } from '../commands/outbox.ts';
import type { OutboxCheckOptions } from '../commands/outbox-check.ts';
import { parseWholeNumber, setExitCode } from './options.ts';

function withOutboxFilter(command: Command): Command {
  return command
    .option('--client <key>', 'only this client')
    .option('--status <status>', 'pending, sending, done, dead, unknown or cancelled')
    .option('--kind <kind>', 'such as order.create')
    .option('--reference <reference>', 'external order number, external reference, slip reference or sku')
    .option('--error <text>', 'rows whose last_error contains this text')
    .option('--json', 'print JSON');
}

/** Adds the commands `outbox …`. */
export function addOutboxCommands(cli: Command): void {
  const outbox = cli
    .command('outbox')
    .description('show, retry, replace, cancel or mark as done the rows of the outbox; check payloads')
    .addHelpText('after', '\nExample:\n  fulfilment-sync outbox list --status dead');
  withOutboxFilter(
    outbox.command('list').description('show rows and what each waits for; without a filter, only unfinished rows'),
  )
    .option('--limit <number>', 'maximum number of rows (100)', parseWholeNumber)
    .addHelpText('after', '\nExample:\n  fulfilment-sync outbox list --status dead')
    .action(async (options: OutboxOptions) =>
      setExitCode((await import('../commands/outbox.ts')).outboxListCommand(options)),
    );
  outbox
    .command('show')
    .description('show one row with its history; personal data in its payload is masked')
    .argument('<id>', 'number of the row')
    .option('--reveal', 'show the payload unmasked')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  fulfilment-sync outbox show 42')
    .action(async (id: string, options: OutboxOptions) =>
      setExitCode((await import('../commands/outbox.ts')).outboxShowCommand(id, options)),
    );
  const actions = [
    ['retry', 'send rows again; if the service may have carried a row out, it is looked up first, if its kind can be'],
    ['done', 'mark rows as done: the service has carried them out already'],
    ['cancel', 'cancel pending or dead rows for good, so that the later rows of their lanes can be sent'],
  ] as const;
  for (const [action, description] of actions) {
    const command = withOutboxFilter(outbox.command(action).description(description))
      .argument('[ids...]', 'numbers of rows; without numbers, all rows that match (only dead ones without --status)')
      .option('--yes', 'confirms a change of all rows that match');
    if (action === 'done') command.option('--result <json>', 'result for the ERP to read, a JSON object');
    command
      .addHelpText(
        'after',
        `\nExamples:\n  fulfilment-sync outbox ${action} 42 43\n  fulfilment-sync outbox ${action} --status dead --kind order.create --yes`,
      )
      .action(async (ids: string[], options: OutboxOptions) =>
        setExitCode((await import('../commands/outbox.ts')).outboxActCommand(action, ids, options)),
      );
  }
  outbox
    .command('replace')
    .description('replace the payload of a pending or dead row; it keeps its place and its history')
    .argument('<id>', 'number of the row')
    .argument('<payload>', 'JSON, @file, or - for standard input')
    .addHelpText('after', '\nExample:\n  fulfilment-sync outbox replace 42 @order.json')
    .action(async (id: string, payload: string) =>
      setExitCode((await import('../commands/outbox.ts')).outboxReplaceCommand(id, payload)),
    );
  addCheckCommand(outbox);
}

function addCheckCommand(outbox: Command): void {
  outbox
    .command('check')
    .description('check a payload as a worker does, without inserting it; exits with 1 if it has problems')
    .argument('<kind>', 'such as order.create')
    .argument('[file]', 'file with the payload; - or nothing for standard input')
    .option('--client <key>', 'compare codes with the stored settings of this client')
    .option('--reference <reference>', 'reference that the row will have')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  fulfilment-sync outbox check order.create order.json --client default')
    .action(async (kind: string, file: string | undefined, options: OutboxCheckOptions) =>
      setExitCode((await import('../commands/outbox-check.ts')).outboxCheckCommand(kind, file, options)),
    );
}
