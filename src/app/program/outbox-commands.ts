import type { Command } from 'commander';
import type { OutboxOptions } from '../commands/outbox.ts';
import { finish, wholeNumber } from './options.ts';

function withOutboxFilter(command: Command): Command {
  return command
    .option('--client <key>', 'only this client')
    .option('--status <status>', 'pending, sending, done, dead, unknown or cancelled')
    .option('--kind <kind>', 'such as order.create')
    .option('--reference <reference>', 'external order number, external reference, slip reference or sku')
    .option('--error <text>', 'rows whose last_error holds this text')
    .option('--json', 'for programs');
}

/** `outbox …` */
export function addOutboxCommands(cli: Command): void {
  const outbox = cli
    .command('outbox')
    .description('what the ERP asked for: see it, and put it right')
    .addHelpText('after', '\nExample:\n  fulfilment-sync outbox list --status dead');
  withOutboxFilter(
    outbox.command('list').description('show rows, those that are not through unless options name others, and why'),
  )
    .option('--limit <number>', 'so many at most (100)', wholeNumber)
    .addHelpText('after', '\nExample:\n  fulfilment-sync outbox list --status dead')
    .action(async (options: OutboxOptions) =>
      finish((await import('../commands/outbox.ts')).outboxListCommand(options)),
    );
  outbox
    .command('show')
    .description('show one row with its history; personal data in its payload is masked')
    .argument('<id>', 'number of the row')
    .option('--reveal', 'show the payload as it is')
    .option('--json', 'for programs')
    .addHelpText('after', '\nExample:\n  fulfilment-sync outbox show 42')
    .action(async (id: string, options: OutboxOptions) =>
      finish((await import('../commands/outbox.ts')).outboxShowCommand(id, options)),
    );
  const actions = [
    ['retry', 'send rows again; those that may have been carried out are looked up first, where they can be'],
    ['done', 'mark rows as done: it is true at the service already'],
    ['cancel', 'take pending or dead rows out for good, and free their lanes'],
  ] as const;
  for (const [action, description] of actions) {
    const command = withOutboxFilter(outbox.command(action).description(description))
      .argument('[ids...]', 'numbers of rows; without any, all that fit the options')
      .option('--yes', 'do it to all that fit');
    if (action === 'done') command.option('--result <json>', 'what the ERP reads as its result');
    command
      .addHelpText(
        'after',
        `\nExamples:\n  fulfilment-sync outbox ${action} 42 43\n  fulfilment-sync outbox ${action} --status dead --kind order.create --yes`,
      )
      .action(async (ids: string[], options: OutboxOptions) =>
        finish((await import('../commands/outbox.ts')).outboxActCommand(action, ids, options)),
      );
  }
  outbox
    .command('replace')
    .description('give a pending or dead row another payload; it keeps its place and its history')
    .argument('<id>', 'number of the row')
    .argument('<payload>', 'JSON, @file, or - for standard input')
    .addHelpText('after', '\nExample:\n  fulfilment-sync outbox replace 42 @order.json')
    .action(async (id: string, payload: string) =>
      finish((await import('../commands/outbox.ts')).outboxReplaceCommand(id, payload)),
    );
}
