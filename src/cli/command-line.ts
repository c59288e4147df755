/**
 * The words and options that the commands share: parsing, errors, printing, and the database of a
 * command.
 */

import { readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { createInterface } from 'node:readline/promises';
import { Argument, type Command, InvalidArgumentError } from 'commander';
import { describeFileError } from '../../config/config-error.ts';
import { type Config, readConfig } from '../../config/env.ts';
import type { WarehouseClient } from '../../config/files.ts';
import { polledStreams, runnableNames } from '../../config/jobs.ts';
import { describeHold } from '../core/database-mark.ts';
import { CodedError } from '../core/errors.ts';
import { silentLogger } from '../core/logger.ts';
import { escapeHidden, toVisible } from '../core/quote.ts';
import { connectDatabase, type DatabaseAddress, toAddress } from '../db/connect.ts';
import type { Database } from '../db/pool.ts';
import { assertSchemaFits } from '../db/schema-fit.ts';
import { isDiskFull } from '../db/transaction.ts';
import type { Stream } from '../pull/stream.ts';
import { streams } from '../pull/streams/all-streams.ts';
import { readPushDatabase } from '../push/sql/push-database.ts';
import { readClients } from '../service/sql/clients.ts';
import { formatTable } from './table.ts';

/** An error in the words or options of a command. The process exits with 2. */
export class UsageError extends CodedError {
  constructor(message: string) {
    super('usage', message);
  }
}

/** Creates the argument that names a stream. */
export const streamArgument = (name: '<stream>' | '[stream]') =>
  new Argument(name, 'kind of resources').choices(streamNames);

/** Creates the argument that names a job. */
export const jobArgument = () => new Argument('<job>', 'name of the job').choices(runnableNames);

export const streamNames: readonly string[] = Object.values(polledStreams);

/** The help of a command. */
interface CommandHelp {
  readonly name: string;
  readonly description: string;
  /** Lines of words that follow the name of the command in an example. */
  readonly examples?: string;
  /** Lines above the examples. */
  readonly notes?: string;
}

/** Adds a command with its help. */
export function addCommand(
  parent: Command,
  { name, description, examples = '', notes }: CommandHelp,
): Command {
  const group = parent.parent === null ? '' : `${parent.name()} `;
  const lines = examples
    .split('\n')
    .map((words) => `\n  fulfilment-sync ${group}${name} ${words}`.trimEnd());
  const above = notes === undefined ? '' : `\n${notes}\n`;
  const help = `${above}\nExample${lines.length > 1 ? 's' : ''}:${lines.join('')}`;

  return parent.command(name).description(description).addHelpText('after', help);
}

/**
 * Returns an action of Commander. The result of the command becomes the exit code of the process.
 * No command takes an empty argument.
 */
export const exitWith =
  <Words extends unknown[]>(command: (...words: Words) => Promise<number>) =>
  async (...words: Words): Promise<void> => {
    const { args, registeredArguments } = words.at(-1) as Command;
    const place = args.indexOf('');
    const argument = registeredArguments[place] ?? registeredArguments.at(-1);
    if (place >= 0) throw new UsageError(`The argument ${argument?.name() ?? ''} is empty`);

    process.exitCode = await command(...words);
  };

/** Arguments of `option` that many commands share. */
export const forClient = ['--client <key>', 'only this client'] as const;
export const asJson = ['--json', 'print JSON'] as const;

/**
 * Reads the value of an option as a whole number.
 * @throws InvalidArgumentError if it is not a whole number of at most 9 digits
 */
export function parseWholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}

/**
 * Reads the value of an option as a whole number within limits.
 * @throws InvalidArgumentError if it is not
 */
export const parseNumberWithin =
  (min: number, max: number) =>
  (text: string): number => {
    const number = parseWholeNumber(text);
    if (number >= min && number <= max) return number;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };

/** The options that many commands have. */
export interface CommonOptions {
  readonly client?: string;
  readonly json?: boolean;
  readonly yes?: boolean;
}

/**
 * Reads the number of a row, or an id.
 * @throws UsageError that says what the text is not
 */
export function parseId(text: string, what: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new UsageError(`${text} is not ${what}`);
  return Number(text);
}

/**
 * Reads a file; `-` is standard input.
 * @throws UsageError if it cannot be read
 */
export function readInput(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (cause) {
    const name = file === '-' ? 'Standard input' : file;
    throw new UsageError(`${name} cannot be read: ${describeFileError(cause)}`);
  }
}

/**
 * Selects the clients of a command: one, or all without a key.
 * @throws UsageError with the known clients, if there is no such client
 */
export function selectClients(
  { clients }: Config,
  only: string | undefined,
): readonly WarehouseClient[] {
  const selected = clients.filter(({ key }) => only === undefined || key === only);
  if (selected.length > 0) return selected;

  throw new UsageError(
    `There is no client ${only ?? ''}; known are ${clients.map(({ key }) => key).join(', ')}`,
  );
}

/**
 * Checks the client of an option, where a command would otherwise find nothing.
 * @throws UsageError with the known clients, if neither the configuration nor a worker has had it
 */
export async function assertClientKnown(db: Database, client: string | undefined): Promise<void> {
  if (client === undefined) return;

  const configured = readConfig({ database: true, clients: false }).clients;
  const stored = await readClients(db);
  const known = new Set([...configured.map(({ key }) => key), ...stored.map((one) => one.client)]);
  if (known.has(client)) return;

  throw new UsageError(
    `There is no client ${client}; known are ${[...known].sort().join(', ') || 'none'}`,
  );
}

/**
 * Asks the person at the terminal.
 * @throws UsageError with `refusal` if the answer is not yes
 */
export async function confirm(question: string, refusal: string): Promise<void> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });

  try {
    const answer = await terminal.question(toVisible(`${question} Continue? (yes/no) `));
    if (answer.trim().toLowerCase() !== 'yes') throw new UsageError(refusal);
  } finally {
    terminal.close();
  }
}

/**
 * Writes text to standard output. Control characters, which words of others may have, are shown by
 * their code.
 */
export const print = (text: string): void => printStyled(toVisible(text));

/**
 * Writes text that has styles of a terminal, such as a table. The words of others in it must be
 * visible already.
 */
export function printStyled(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Writes text to standard error, as `print` does. */
export function printError(text: string): void {
  process.stderr.write(`${toVisible(text)}\n`);
}

/** Writes data as JSON to standard output. */
export const printJson = (data: unknown): void => printStyled(toJson(data));

/**
 * Prints rows as JSON, as a table, or says that there are none.
 * @param members those that the table shows; default: all
 * @returns true if it is a table, which may need more words
 */
export function printRows<Row extends object>(
  rows: readonly Row[],
  none: string,
  { json }: CommonOptions,
  members?: readonly (keyof Row & string)[],
): boolean {
  const isTable = !json && rows.length > 0;
  if (json) printJson(rows);
  else if (isTable) printStyled(formatTable(rows, members));
  else print(none);
  return isTable;
}

/** Prints the members of a row, each on a line. */
export function printFacts(row: object): void {
  for (const [name, value] of Object.entries(row))
    print(`${name}: ${value instanceof Date ? value.toISOString() : value}`);
}

/** Returns data as JSON in which hidden characters are escapes. */
export const toJson = (data: unknown): string => escapeHidden(JSON.stringify(data, null, 2));

/** Returns the operator's name for sync.audit: the user name on this machine. */
export function readOperatorName(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container the user often has no entry in /etc/passwd. Then only its number is known.
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}

/**
 * Opens the database for a command that executes no runs, calls `work`, and closes the database
 * afterwards.
 * @throws SchemaError if the schema does not fit this version
 */
export async function withDatabase<T>(
  name: string,
  work: (db: Database) => Promise<T>,
  findAddress: (config: Config) => DatabaseAddress = toAddress,
): Promise<T> {
  const config = readConfig({ database: true, clients: false });
  const { db, close } = connectDatabase(findAddress(config), silentLogger, { name, max: 1 });

  try {
    await assertSchemaFits(db);
    return await work(db);
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    throw new CodedError('disk_full', 'The disk of Postgres is full; free space, or enlarge it', {
      cause: error,
    });
  } finally {
    await close();
  }
}

/**
 * Returns why no worker sends anything from this database; null if they do. The address of this
 * session does not matter: workers have their own.
 */
export async function readHold(db: Database): Promise<string | null> {
  const database = await readPushDatabase(db);
  return database === null ? null : describeHold({ ...database, isPlaceAccepted: true });
}

/** Returns the stream of a name that the command line has checked. */
export function findStream(name: string): Stream {
  const found = streams.find((stream) => stream.name === name);
  if (found === undefined) throw new UsageError(`There is no stream ${name}`);
  return found;
}

const closing = new AbortController();

/**
 * Aborts when nobody reads the standard output any more. Commands that only show something then
 * end.
 */
export const outputClosed: AbortSignal = closing.signal;

/**
 * Keeps the process alive when the reader of its output ends first, as in `reconcile | head -1`.
 * What a command does in the database must not depend on who reads its lines.
 */
export function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      if (stream === process.stdout) closing.abort();
    });
}

/**
 * Creates a signal that aborts on SIGTERM or SIGINT. A second SIGTERM or SIGINT ends the process at
 * once.
 */
export function createStopSignal(onStop?: (cause: string) => void): AbortSignal {
  const stop = new AbortController();
  const onSignal = (cause: string) => {
    if (stop.signal.aborted) process.exit(1);
    onStop?.(cause);
    stop.abort();
  };

  process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
  process.once('disconnect', () => {
    if (!stop.signal.aborted) onSignal('parent gone');
  });
  // The listener keeps the channel open. An open channel must not keep the process alive.
  process.channel?.unref();

  return stop.signal;
}
