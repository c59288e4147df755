import { readFileSync } from 'node:fs';
import { type Json, parseObject } from '../../core/json.ts';
import { toVisible } from '../../core/quote.ts';
import { sqlState } from '../../erp/connection/transaction.ts';
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
import { operatorName } from '../cli/operator.ts';
import { print } from '../cli/print.ts';
import { UsageError } from '../cli/usage.ts';
import { withDatabase } from '../cli/with-database.ts';
import { adviceFor } from '../terminal/outbox-advice.ts';
import { shownPayload } from '../terminal/shown-payload.ts';
import { formatTable, lookOfState } from '../terminal/table.ts';

/** What chooses rows: numbers, or everything that fits. */
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

const pastOf = { retry: 'sent again', done: 'marked as done', cancel: 'cancelled' } as const;
const defaultLimit = 100;

/** Shows rows, with the reason why each is not through. */
export async function outboxListCommand(options: OutboxOptions): Promise<number> {
  const filter = filterOf([], options);
  const limit = options.limit ?? defaultLimit;
  const shown = Object.keys(filter).length === 0 ? { open: true } : filter;
  const rows = await withDatabase('outbox', (db) => listOutbox(db, shown, limit));
  if (options.json) print(JSON.stringify(rows, null, 2));
  else if (rows.length === 0)
    print('open' in shown ? 'All rows of the outbox are through.' : 'No row of the outbox fits.');
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
        look: (text, heading) => (heading === 'status' ? lookOfState(text) : null),
      }),
    );
    if (rows.length === limit) print(`\nThe first ${limit}; more with --limit`);
    print('\nOne whole: outbox show <id>');
  }
  return 0;
}

/** Shows one row with its history; personal data in its payload is masked unless it is asked for. */
export async function outboxShowCommand(id: string, { json, reveal }: OutboxOptions): Promise<number> {
  const row = await withDatabase('outbox', (db) =>
    reveal ? revealOutbox(db, idOf(id), operatorName()) : readOutbox(db, idOf(id)),
  );
  if (row === null) return missing(id);
  const shown = {
    ...row,
    payload: shownPayload(row, reveal ?? false),
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
    print(`\n${adviceFor(row)}`);
  }
  return 0;
}

/** Sends rows again, marks them as done, or cancels them: by their numbers, or all that fit. */
export async function outboxActCommand(
  action: OutboxAction,
  ids: readonly string[],
  options: OutboxOptions,
): Promise<number> {
  const asked = filterOf(ids, options);
  // By a filter, only what is dead, unless another status is named: nothing is lost or doubled by one word too few.
  const filter = ids.length > 0 ? asked : { status: 'dead', ...asked };
  if (Object.keys(asked).length === 0)
    throw new UsageError(`Name rows by their numbers, or by --status, --kind, --client, --reference or --error`);
  const result = resultOf(options.result);
  return withDatabase('outbox', async (db) => {
    if (ids.length === 0 && !options.yes) {
      const count = await countOutbox(db, filter, action);
      throw new UsageError(
        `This would ${action} ${count} ${filter.status} rows; add --yes to do it (outbox list shows them)`,
      );
    }
    const by = `${operatorName()} (outbox ${action})`;
    const done = await actOnOutbox(db, action, filter, { by, followUps: followUpRules, result });
    const left = (filter.ids ?? []).filter((id) => !done.includes(id));
    if (options.json) print(JSON.stringify({ done, left }));
    else print(`${done.length} ${done.length === 1 ? 'row' : 'rows'} ${pastOf[action]}`);
    if (left.length === 0) return 0;
    process.stderr.write(
      `Not done for ${left.join(', ')}: there is no such row, or it is not ${allowedFrom[action].join(', ')}; see outbox show <id>\n`,
    );
    return 1;
  });
}

/** Gives a row another payload: JSON, or a file whose name follows @, or - for standard input. */
export async function outboxReplaceCommand(id: string, payload: string): Promise<number> {
  const text =
    payload === '-' ? readFileSync(0, 'utf8') : payload.startsWith('@') ? readPayloadFile(payload.slice(1)) : payload;
  parsePayload(text, 'payload');
  return withDatabase('outbox', async (db) => {
    try {
      await replaceOutbox(db, idOf(id), text, `${operatorName()} (outbox replace)`);
    } catch (error) {
      if (sqlState(error) !== '22023' || !(error instanceof Error)) throw error;
      process.stderr.write(`${error.message}\n`);
      return 1;
    }
    print(`Row ${id} has its new payload and is pending`);
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

const resultOf = (text: string | undefined): Json => (text === undefined ? {} : parsePayload(text, 'result'));

function filterOf(ids: readonly string[], options: OutboxOptions): OutboxFilter {
  const { client, status, kind, reference, error } = options;
  if (status !== undefined && !(outboxStatuses as readonly string[]).includes(status))
    throw new UsageError(`There is no status ${status}; known are ${outboxStatuses.join(', ')}`);
  return {
    ...(ids.length === 0 ? {} : { ids: ids.map(idOf) }),
    ...(client === undefined ? {} : { client }),
    ...(status === undefined ? {} : { status }),
    ...(kind === undefined ? {} : { kind }),
    ...(reference === undefined ? {} : { reference }),
    ...(error === undefined ? {} : { error }),
  };
}

function idOf(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new UsageError(`${text} is no number of an outbox row`);
  return Number(text);
}

function missing(id: string): number {
  process.stderr.write(`There is no row ${id} in the outbox; see: fulfilment-sync outbox list\n`);
  return 1;
}
