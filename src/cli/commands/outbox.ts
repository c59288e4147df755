import { Argument, type Command, Option } from 'commander';
import { readConfig } from '../../../config/env.ts';
import { type Json, parseObject } from '../../core/json.ts';
import { formatCount } from '../../operate/health/problem.ts';
import { findPayloadProblems } from '../../push/check-payload.ts';
import type { CodeLists } from '../../push/kind.ts';
import { nameKinds, outboxKinds } from '../../push/kinds/registry.ts';
import { anyCode, readStoredCodes } from '../../push/setting-codes.ts';
import { adviseOperator, maskResult, toShownPayload } from '../../push/show-row.ts';
import {
  actOnOutbox,
  allowedFrom,
  countOutbox,
  findCancelProblem,
  type OutboxAction,
  revealOutbox,
} from '../../push/sql/operator-actions.ts';
import {
  listOutbox,
  type OutboxFilter,
  outboxStatuses,
  readOutbox,
} from '../../push/sql/read-outbox.ts';
import { findReplacementProblems, replacePayload, requireRow } from '../../serve/row-actions.ts';
import {
  addCommand,
  asJson,
  assertClientKnown,
  type CommonOptions,
  exitWith,
  forClient,
  parseId,
  parseNumberWithin,
  print,
  printError,
  printFacts,
  printJson,
  printRows,
  printStyled,
  readHold,
  readInput,
  readOperatorName,
  UsageError,
  withDatabase,
} from '../command-line.ts';
import { formatTable } from '../table.ts';

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

const doneWords = {
  retry: 'will be sent again',
  done: 'marked as done',
  cancel: 'cancelled',
} as const;

const defaultLimit = 100;

const shownMembers = [
  ...(['id', 'client', 'kind', 'reference', 'status', 'attempts'] as const),
  ...(['createdAt', 'nextAttemptAt', 'because'] as const),
];

/** Prints rows, with what each unfinished row waits for. */
async function outboxListCommand(options: OutboxOptions): Promise<number> {
  const filter = toFilter([], options);
  const limit = options.limit ?? defaultLimit;
  const shown = Object.keys(filter).length === 0 ? { open: true } : filter;
  const rows = await withDatabase('outbox', async (db) => {
    const found = await listOutbox(db, shown, limit);
    if (found.length === 0) await assertClientKnown(db, options.client);
    return found;
  });

  const none =
    'open' in shown ? 'The outbox has no unfinished rows.' : 'No row of the outbox matches.';
  if (printRows(rows, none, options, shownMembers)) {
    if (rows.length === limit)
      print(`\nOnly the first ${limit} rows are shown; use --limit to see more`);
    print('\nTo see one row in full: fulfilment-sync outbox show <id>');
  }
  return 0;
}

/**
 * Prints one row with its history. Personal data in payload and result is masked, unless `reveal`
 * is set.
 */
async function outboxShowCommand(id: string, { json, reveal }: OutboxOptions): Promise<number> {
  const row = await withDatabase('outbox', (db) =>
    reveal ? revealOutbox(db, parseRowId(id), readOperatorName()) : readOutbox(db, parseRowId(id)),
  );

  if (row === null) {
    printError(`There is no row ${id} in the outbox; see: fulfilment-sync outbox list`);
    return 1;
  }

  const shown = {
    ...row,
    payload: toShownPayload(row, reveal ?? false),
    result: reveal || row.result === null ? row.result : maskResult(row.result),
  };
  if (json) {
    printJson(shown);
    return 0;
  }

  const { history, payload, result, ...about } = shown;
  const rowsBehind = about.rowsBehind.map((behind) => `row ${behind}`).join(', ') || 'none';
  printFacts({ ...about, rowsBehind });

  const [resultNote, payloadNote] = reveal
    ? ['', '']
    : [' (masked)', ' (masked; --reveal shows it)'];
  print(`result${resultNote}: ${JSON.stringify(result)}`);
  print(`payload${payloadNote}: ${JSON.stringify(payload, null, 2)}`);

  printStyled(`\n${formatTable(history)}`);
  print(`\n${adviseOperator(row)}`);
  return 0;
}

/**
 * Retries rows, marks them as done, or cancels them: those with these numbers, or all that match
 * the options.
 */
async function outboxActCommand(
  action: OutboxAction,
  ids: readonly string[],
  options: OutboxOptions,
): Promise<number> {
  const chosen = toFilter(ids, options);
  // A filter without --status selects only dead rows, so that a forgotten option cannot lose or
  // double anything.
  const filter = ids.length > 0 ? chosen : { status: 'dead', ...chosen };
  if (Object.keys(chosen).length === 0)
    throw new UsageError(
      'Name rows by their numbers, or by --status, --kind, --client, --reference or --error',
    );

  const result = parseJsonObject(options.result ?? '{}', 'result');
  return withDatabase('outbox', async (db) => {
    const count = await countOutbox(db, filter, action);
    if (count === 0) await assertClientKnown(db, options.client);
    if (ids.length === 0 && !options.yes)
      throw new UsageError(
        `This would ${action} ${formatCount(count, `${filter.status} row`)}; ` +
          'add --yes to do it (outbox list shows them)',
      );

    const by = `${readOperatorName()} (outbox ${action})`;
    const done = await actOnOutbox(db, action, filter, { by, result });
    const left = (filter.ids ?? []).filter((id) => !done.includes(id));
    const hold = action === 'retry' ? await readHold(db) : null;
    const words = hold === null ? doneWords[action] : `pending again, but not sent: ${hold}`;
    if (options.json) printJson({ done, left });
    else print(`${formatCount(done.length, 'row')} ${words}`);

    if (left.length === 0) return 0;
    for (const id of action === 'cancel' ? left : []) {
      const problem = await findCancelProblem(db, id);
      if (problem !== null) printError(`Row ${id} must not be cancelled: ${problem}`);
    }
    const allowed = allowedFrom[action].join(' or ');
    printError(
      `Nothing was done for ${left.join(', ')}: there is no such row, ` +
        `or its status is not ${allowed}; see: fulfilment-sync outbox show <id>`,
    );
    return 1;
  });
}

async function outboxReplaceCommand(
  id: string,
  payload: string,
  { yes }: OutboxOptions,
): Promise<number> {
  const text = readPayload(payload);
  parseJsonObject(text, 'payload (JSON, @file, or - for standard input)');
  const { operations } = readConfig({ database: true, clients: false });
  const { signal } = new AbortController();
  const context = { owner: 'command', operations, signal };

  return withDatabase('outbox', async (db) => {
    const row = await requireRow(db, parseRowId(id));
    const problems = yes ? [] : await findReplacementProblems(db, row, text, context);
    if (problems.length > 0) {
      for (const problem of problems) print(problem.text);
      printError('Nothing was stored: correct the payload, or add --yes to store it anyway');
      return 1;
    }

    await replacePayload(db, row.id, text, `${readOperatorName()} (outbox replace)`);
    print(`Row ${id} has the new payload and is pending`);
    return 0;
  });
}

/** Reads a payload as a command names it: JSON, `@file`, or `-` for standard input. */
function readPayload(payload: string): string {
  if (payload === '-') return readInput('-');
  return payload.startsWith('@') ? readInput(payload.slice(1)) : payload;
}

/**
 * Checks a payload as a worker does before it sends a row, without inserting or sending anything.
 * Codes are compared with the stored service lists of a client, if there is a database.
 * @throws UsageError if the file cannot be read
 */
async function outboxCheckCommand(
  name: string,
  file: string | undefined,
  { client, reference, json }: OutboxOptions,
): Promise<number> {
  const { operations, DATABASE_URL } = readConfig({ database: false, clients: false });
  const kind = nameKinds(operations).get(name);
  if (kind === undefined) throw new UsageError(`There is no kind ${name}`);
  const text = readInput(file ?? '-');

  const { codes, unchecked } = await openCodes(client, DATABASE_URL !== undefined);
  const { signal } = new AbortController();
  const context = { codes, owner: 'command', operations, signal };
  const found = await findPayloadProblems(kind, { payload: text, reference }, context);
  const problems = found.map((problem) => problem.text);

  if (json) printJson({ kind: name, problems, codesChecked: unchecked === null, why: unchecked });
  else {
    for (const problem of problems) print(problem);
    if (problems.length === 0) print(`No problems were found in this payload of ${name}.`);
    if (unchecked !== null) print(`Codes were not checked: ${unchecked}`);
  }

  return problems.length === 0 ? 0 : 1;
}

async function openCodes(
  client: string | undefined,
  hasDatabase: boolean,
): Promise<{ codes: CodeLists; unchecked: string | null }> {
  if (client === undefined) return { codes: anyCode, unchecked: 'name the client with --client' };
  if (!hasDatabase) return { codes: anyCode, unchecked: 'DATABASE_URL is not set' };
  return withDatabase('outbox', async (db) => {
    const stored = await readStoredCodes(db, client);
    if (stored.unchecked !== null) await assertClientKnown(db, client);
    return stored;
  });
}

function parseJsonObject(text: string, name: string): Json {
  const value = parseObject(text);
  if (value === null) throw new UsageError(`The ${name} must be a JSON object`);
  return value;
}

function toFilter(ids: readonly string[], options: OutboxOptions): OutboxFilter {
  const { client, status, kind, reference, error } = options;
  const given = Object.entries({ client, status, kind, reference, error }).filter(
    ([, value]) => value !== undefined,
  );
  return {
    ...Object.fromEntries(given),
    ...(ids.length === 0 ? {} : { ids: ids.map(parseRowId) }),
  };
}

const parseRowId = (text: string) =>
  parseId(text, 'the number of an outbox row; see: fulfilment-sync outbox list');

function withOutboxFilter(command: Command, statuses: readonly string[]): Command {
  return command
    .option(...forClient)
    .addOption(new Option('--status <status>').choices(statuses))
    .option('--kind <kind>', 'such as order.create')
    .option(
      '--reference <reference>',
      'external order number, external reference, slip reference or sku',
    )
    .option('--error <text>', 'rows whose last_error contains this text')
    .option(...asJson);
}

/** Adds the commands `outbox …`. */
export function addOutboxCommands(cli: Command): void {
  const outbox = addCommand(cli, {
    name: 'outbox',
    description:
      'show, retry, replace, cancel or mark as done the rows of the outbox; check payloads',
    examples: 'list --status dead',
  });

  addReadingCommands(outbox);
  for (const action of outboxActions) addActionCommand(outbox, action);

  addCommand(outbox, {
    name: 'replace',
    description: 'replace the payload of a pending or dead row; it keeps its place and its history',
    examples: '42 @order.json',
  })
    .argument('<id>', 'number of the row')
    .argument('<payload>', 'JSON, @file, or - for standard input')
    .option('--yes', 'stores a payload that workers will refuse')
    .action(exitWith(outboxReplaceCommand));

  addCommand(outbox, {
    name: 'check',
    description:
      'check a payload as a worker does, without inserting it; exits with 1 if it has problems',
    examples: 'order.create order.json --client default',
  })
    .addArgument(new Argument('<kind>').choices(outboxKinds.map((kind) => kind.name)))
    .argument('[file]', 'file with the payload; - or nothing for standard input')
    .option('--client <key>', 'compare codes with the stored service lists of this client')
    .option('--reference <reference>', 'reference that the row will have')
    .option(...asJson)
    .action(exitWith(outboxCheckCommand));
}

function addReadingCommands(outbox: Command): void {
  const list = addCommand(outbox, {
    name: 'list',
    description: 'show rows and what each waits for; without a filter, only unfinished rows',
    examples: '--status dead',
  });
  withOutboxFilter(list, outboxStatuses)
    .option('--limit <number>', 'maximum number of rows (100)', parseNumberWithin(1, 100_000))
    .action(exitWith(outboxListCommand));

  addCommand(outbox, {
    name: 'show',
    description: 'show one row with its history; personal data in its payload is masked',
    examples: '42',
  })
    .argument('<id>', 'number of the row')
    .option('--reveal', 'show the payload unmasked')
    .option(...asJson)
    .action(exitWith(outboxShowCommand));
}

/** What each action does to rows, for the help. */
const outboxActions: readonly { readonly name: OutboxAction; readonly description: string }[] = [
  {
    name: 'retry',
    description:
      'send rows again; if the service may have carried a row out, it is looked up first, ' +
      'if its kind can be',
  },
  {
    name: 'done',
    description: 'mark rows as done: the service has carried them out already',
  },
  {
    name: 'cancel',
    description:
      'cancel pending or dead rows for good, so that the later rows of their lanes can be sent',
  },
];

function addActionCommand(
  outbox: Command,
  { name, description }: (typeof outboxActions)[number],
): void {
  const examples = '42 43\n--status dead --kind order.create --yes';
  const added = addCommand(outbox, { name, description, examples });
  const command = withOutboxFilter(added, allowedFrom[name])
    .argument(
      '[ids...]',
      'numbers of rows; without numbers, all rows that match (only dead ones without --status)',
    )
    .option('--yes', 'confirms a change of all rows that match');
  if (name === 'done')
    command.option('--result <json>', 'result for the ERP to read, a JSON object');

  command.action(
    exitWith((ids: string[], options: OutboxOptions) => outboxActCommand(name, ids, options)),
  );
}
