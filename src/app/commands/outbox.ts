import { readFileSync } from 'node:fs';
import { type Json, parseObject } from '../../core/json.ts';
import { toVisible } from '../../core/quote.ts';
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
import { shortenResult } from '../../sync/push/payload/mask.ts';
import { readOperatorName } from '../cli/operator.ts';
import { print } from '../cli/print.ts';
import { UsageError } from '../cli/usage.ts';
import { withDatabase } from '../cli/with-database.ts';
import { adviseOperator } from '../terminal/outbox-advice.ts';
import { toShownPayload } from '../terminal/shown-payload.ts';
import { formatTable, toStateLook } from '../terminal/table.ts';

/** The options that select rows, and those of single commands. */
export interface OutboxOptions {
  readonly client?: string;
  readonly status?: string;
  readonly kind?: string;
  readonly reference?: string;
  readonly error?: string;
  readonly limit?: number;
  readonly reveal?: boolean;
  readonly result?: string;
  readonly yes?: boolean;
  readonly json?: boolean;
}

const doneWords = { retry: 'will be sent again', done: 'marked as done', cancel: 'cancelled' } as const;
const defaultLimit = 100;

/** Prints rows, with what each unfinished row waits for. */
export async function outboxListCommand(options: OutboxOptions): Promise<number> {
  const filter = toFilter([], options);
  const limit = options.limit ?? defaultLimit;
  const shown = Object.keys(filter).length === 0 ? { open: true } : filter;
  const rows = await withDatabase('outbox', (db) => listOutbox(db, shown, limit));
  if (options.json) print(JSON.stringify(rows, null, 2));
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
    print(
      formatTable(['id', 'client', 'kind', 'reference', 'status', 'attempts', 'created', 'next', 'because'], cells, {
        look: (text, heading) => (heading === 'status' ? toStateLook(text) : null),
      }),
    );
    if (rows.length === limit) print(`\nOnly the first ${limit} rows are shown; use --limit to see more`);
    print('\nTo see one row in full: fulfilment-sync outbox show <id>');
  }
  return 0;
}

/** Prints one row with its history. Personal data in its payload is masked, unless `reveal` is set. */
export async function outboxShowCommand(id: string, { json, reveal }: OutboxOptions): Promise<number> {
  const row = await withDatabase('outbox', (db) =>
    reveal ? revealOutbox(db, parseRowId(id), readOperatorName()) : readOutbox(db, parseRowId(id)),
  );
  if (row === null) return reportMissingRow(id);
  const shown = {
    ...row,
    payload: toShownPayload(row, reveal ?? false),
    result: reveal || row.result === null ? row.result : shortenResult(row.result),
  };
  if (json) print(JSON.stringify(shown, null, 2));
  else {
    const { history, payload, result, ...about } = shown;
    for (const [name, value] of Object.entries(about))
      print(toVisible(`${name}: ${value instanceof Date ? value.toISOString() : value}`));
    print(toVisible(`result: ${JSON.stringify(result)}`));
    print(toVisible(`payload${reveal ? '' : ' (masked; --reveal shows it)'}: ${JSON.stringify(payload, null, 2)}`));
    print(
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

/**
 * Retries rows, marks them as done, or cancels them: those with these numbers, or all that match the options.
 * @returns 1 if a row was named that does not exist or whose status does not allow the action, else 0
 * @throws UsageError if neither numbers nor options are given, or if `--yes` is missing
 */
export async function outboxActCommand(
  action: OutboxAction,
  ids: readonly string[],
  options: OutboxOptions,
): Promise<number> {
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
    if (options.json) print(JSON.stringify({ done, left }));
    else print(`${done.length} ${done.length === 1 ? 'row' : 'rows'} ${doneWords[action]}`);
    if (left.length === 0) return 0;
    process.stderr.write(
      `Nothing was done for ${left.join(', ')}: there is no such row, or its status is not ${allowedFrom[action].join(' or ')}; see: fulfilment-sync outbox show <id>\n`,
    );
    return 1;
  });
}

/**
 * Replaces the payload of a row.
 * @param payload JSON; or @ and the name of a file; or - for standard input
 * @returns 1 if the database refuses the payload or the row, else 0
 */
export async function outboxReplaceCommand(id: string, payload: string): Promise<number> {
  const text =
    payload === '-' ? readFileSync(0, 'utf8') : payload.startsWith('@') ? readPayloadFile(payload.slice(1)) : payload;
  parsePayload(text, 'payload');
  return withDatabase('outbox', async (db) => {
    try {
      await replaceOutbox(db, parseRowId(id), text, `${readOperatorName()} (outbox replace)`);
    } catch (error) {
      if (readSqlState(error) !== '22023' || !(error instanceof Error)) throw error;
      process.stderr.write(`${error.message}\n`);
      return 1;
    }
    print(`Row ${id} has the new payload and is pending`);
    return 0;
  });
}

function readPayloadFile(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new UsageError(`${path} cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`);
  }
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
  return {
    ...(ids.length === 0 ? {} : { ids: ids.map(parseRowId) }),
    ...(client === undefined ? {} : { client }),
    ...(status === undefined ? {} : { status }),
    ...(kind === undefined ? {} : { kind }),
    ...(reference === undefined ? {} : { reference }),
    ...(error === undefined ? {} : { error }),
  };
}

function parseRowId(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text))
    throw new UsageError(`${text} is not the number of an outbox row; see: fulfilment-sync outbox list`);
  return Number(text);
}

function reportMissingRow(id: string): number {
  process.stderr.write(`There is no row ${id} in the outbox; see: fulfilment-sync outbox list\n`);
  return 1;
}
