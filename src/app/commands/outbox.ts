import type { Command } from 'commander';
import { type Json, parseObject } from '../../core/json.ts';
import { readSqlState } from '../../erp/connection/transaction.ts';
import {
  actOnOutbox,
  allowedFrom,
  countOutbox,
  type OutboxAction,
  replaceOutbox,
  revealOutbox,
} from '../../erp/outbox/operator-actions.ts';
import { listOutbox, type OutboxFilter, outboxStatuses, readOutbox } from '../../erp/outbox/read-outbox.ts';
import { followUpRules } from '../../sync/push/kinds/registry.ts';
import { maskResult } from '../../sync/push/payload/mask.ts';
import {
  type CommonOptions,
  parseId,
  parseWholeNumber,
  print,
  printError,
  printJson,
  printStyled,
  readInput,
  readOperatorName,
  setExitCode,
  UsageError,
  withDatabase,
} from '../cli/command-line.ts';
import { adviseOperator, toShownPayload } from '../terminal/outbox-row.ts';
import { formatTable, toStateLook } from '../terminal/table.ts';
import type { OutboxCheckOptions } from './outbox-check.ts';

/** The options that select rows, and those of single commands. */
interface OutboxOptions extends CommonOptions {
  readonly status?: string;
  readonly kind?: string;
  readonly reference?: string;
  readonly error?: string;
  readonly limit?: number;
  readonly reveal?: boolean;
  readonly result?: string;
}

const doneWords = { retry: 'will be sent again', done: 'marked as done', cancel: 'cancelled' } as const;
const defaultLimit = 100;

/** Prints rows, with what each unfinished row waits for. */
async function outboxListCommand(options: OutboxOptions): Promise<number> {
  const filter = toFilter([], options);
  const limit = options.limit ?? defaultLimit;
  const shown = Object.keys(filter).length === 0 ? { open: true } : filter;
  const rows = await withDatabase('outbox', (db) => listOutbox(db, shown, limit));
  if (options.json) printJson(rows);
  else if (rows.length === 0)
    print('open' in shown ? 'The outbox has no unfinished rows.' : 'No row of the outbox matches.');
  else {
    const cells = rows.map((row) => [
      row.id,
      row.client,
      row.kind,
      row.reference,
      row.status,
      row.attempts,
      row.createdAt.toISOString().slice(0, 19),
      row.nextAttemptAt?.toISOString().slice(0, 19) ?? '-',
      row.because ?? '-',
    ]);
    printStyled(
      formatTable(['id', 'client', 'kind', 'reference', 'status', 'attempts', 'created', 'next', 'because'], cells, {
        look: (text, heading) => (heading === 'status' ? toStateLook(text) : null),
      }),
    );
    if (rows.length === limit) print(`\nOnly the first ${limit} rows are shown; use --limit to see more`);
    print('\nTo see one row in full: fulfilment-sync outbox show <id>');
  }
  return 0;
}

/** Prints one row with its history. Personal data in payload and result is masked, unless `reveal` is set. */
async function outboxShowCommand(id: string, { json, reveal }: OutboxOptions): Promise<number> {
  const row = await withDatabase('outbox', (db) =>
    reveal ? revealOutbox(db, parseRowId(id), readOperatorName()) : readOutbox(db, parseRowId(id)),
  );
  if (row === null) return reportMissingRow(id);
  const shown = {
    ...row,
    payload: toShownPayload(row, reveal ?? false),
    result: reveal || row.result === null ? row.result : maskResult(row.result),
  };
  if (json) printJson(shown);
  else {
    const { history, payload, result, ...about } = shown;
    for (const [name, value] of Object.entries(about))
      print(`${name}: ${value instanceof Date ? value.toISOString() : value}`);
    print(`result${reveal ? '' : ' (masked)'}: ${JSON.stringify(result)}`);
    print(`payload${reveal ? '' : ' (masked; --reveal shows it)'}: ${JSON.stringify(payload, null, 2)}`);
    printStyled(
      `\n${formatTable(
        ['at', 'step', 'by', 'became', 'ms', 'error'],
        history.map((step) => [
          step.at.slice(0, 19),
          step.step,
          step.by,
          step.became,
          step.durationMs ?? '-',
          step.error ?? '-',
        ]),
      )}`,
    );
    print(`\n${adviseOperator(row)}`);
  }
  return 0;
}

/** Retries rows, marks them as done, or cancels them: those with these numbers, or all that match the options. */
async function outboxActCommand(action: OutboxAction, ids: readonly string[], options: OutboxOptions): Promise<number> {
  const chosen = toFilter(ids, options);
  // A filter without --status selects only dead rows, so that a forgotten option cannot lose or double anything.
  const filter = ids.length > 0 ? chosen : { status: 'dead', ...chosen };
  if (Object.keys(chosen).length === 0)
    throw new UsageError(`Name rows by their numbers, or by --status, --kind, --client, --reference or --error`);
  const result = parseResult(options.result);
  return withDatabase('outbox', async (db) => {
    if (ids.length === 0 && !options.yes) {
      const count = await countOutbox(db, filter, action);
      throw new UsageError(
        `This would ${action} ${count} ${filter.status} rows; add --yes to do it (outbox list shows them)`,
      );
    }
    const by = `${readOperatorName()} (outbox ${action})`;
    const done = await actOnOutbox(db, action, filter, { by, followUps: followUpRules, result });
    const left = (filter.ids ?? []).filter((id) => !done.includes(id));
    if (options.json) printJson({ done, left });
    else print(`${done.length} ${done.length === 1 ? 'row' : 'rows'} ${doneWords[action]}`);
    if (left.length === 0) return 0;
    printError(
      `Nothing was done for ${left.join(', ')}: there is no such row, or its status is not ${allowedFrom[action].join(' or ')}; see: fulfilment-sync outbox show <id>`,
    );
    return 1;
  });
}

/** Replaces the payload of a row. */
async function outboxReplaceCommand(id: string, payload: string): Promise<number> {
  const text = payload === '-' ? readInput('-') : payload.startsWith('@') ? readInput(payload.slice(1)) : payload;
  parsePayload(text, 'payload');
  return withDatabase('outbox', async (db) => {
    try {
      await replaceOutbox(db, parseRowId(id), text, `${readOperatorName()} (outbox replace)`);
    } catch (error) {
      if (readSqlState(error) !== '22023' || !(error instanceof Error)) throw error;
      printError(`${error.message}`);
      return 1;
    }
    print(`Row ${id} has the new payload and is pending`);
    return 0;
  });
}

function parsePayload(text: string, name: string): Json {
  const value = parseObject(text);
  if (value === null) throw new UsageError(`The ${name} must be a JSON object`);
  return value;
}

const parseResult = (text: string | undefined): Json => (text === undefined ? {} : parsePayload(text, 'result'));

function toFilter(ids: readonly string[], options: OutboxOptions): OutboxFilter {
  const { client, status, kind, reference, error } = options;
  if (status !== undefined && !(outboxStatuses as readonly string[]).includes(status))
    throw new UsageError(`There is no status ${status}; known are ${outboxStatuses.join(', ')}`);
  const given = Object.entries({ client, status, kind, reference, error }).filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(given), ...(ids.length === 0 ? {} : { ids: ids.map(parseRowId) }) };
}

const parseRowId = (text: string) => parseId(text, 'the number of an outbox row; see: fulfilment-sync outbox list');

function reportMissingRow(id: string): number {
  printError(`There is no row ${id} in the outbox; see: fulfilment-sync outbox list`);
  return 1;
}

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
    .action((options: OutboxOptions) => setExitCode(outboxListCommand(options)));
  outbox
    .command('show')
    .description('show one row with its history; personal data in its payload is masked')
    .argument('<id>', 'number of the row')
    .option('--reveal', 'show the payload unmasked')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  fulfilment-sync outbox show 42')
    .action((id: string, options: OutboxOptions) => setExitCode(outboxShowCommand(id, options)));
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
      .action((ids: string[], options: OutboxOptions) => setExitCode(outboxActCommand(action, ids, options)));
  }
  outbox
    .command('replace')
    .description('replace the payload of a pending or dead row; it keeps its place and its history')
    .argument('<id>', 'number of the row')
    .argument('<payload>', 'JSON, @file, or - for standard input')
    .addHelpText('after', '\nExample:\n  fulfilment-sync outbox replace 42 @order.json')
    .action((id: string, payload: string) => setExitCode(outboxReplaceCommand(id, payload)));
  addCheckCommand(outbox);
}

function addCheckCommand(outbox: Command): void {
  outbox
    .command('check')
    .description('check a payload as a worker does, without inserting it; exits with 1 if it has problems')
    .argument('<kind>', 'such as order.create')
    .argument('[file]', 'file with the payload; - or nothing for standard input')
    .option('--client <key>', 'compare codes with the stored service lists of this client')
    .option('--reference <reference>', 'reference that the row will have')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  fulfilment-sync outbox check order.create order.json --client default')
    .action(async (kind: string, file: string | undefined, options: OutboxCheckOptions) =>
      // Only this command needs the kinds of the outbox.
      setExitCode((await import('./outbox-check.ts')).outboxCheckCommand(kind, file, options)),
    );
}
