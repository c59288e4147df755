import { readFileSync } from 'node:fs';
import { readConfig } from '../../../config/env.ts';
import { findUnstorableReason, isObject, type Json, parseExact } from '../../core/json.ts';
import { toVisible } from '../../core/quote.ts';
import { readOptions } from '../../erp/resources/settings.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { type CodeFinder, findCode } from '../../sync/push/payload/find-code.ts';
import { type AnyKind, configureKind, PayloadError } from '../../sync/push/payload/kind.ts';
import { checkPayload } from '../../sync/push/payload/payload.ts';
import { print } from '../cli/print.ts';
import { UsageError } from '../cli/usage.ts';
import { withDatabase } from '../cli/with-database.ts';

export interface OutboxCheckOptions {
  readonly client?: string;
  readonly reference?: string;
  readonly json?: boolean;
}

/** Maximum size of a payload: the INSERT refuses more. */
const maxBytes = 16 * 1024 * 1024;

/**
 * Checks a payload as a worker does before it sends a row, without inserting or sending anything. Codes are compared
 * with the stored settings of a client, if there is a database.
 * @param file name of a file; - or undefined for standard input
 * @returns 1 if the payload has problems, else 0
 * @throws UsageError if there is no such kind, or the file cannot be read
 */
export async function outboxCheckCommand(
  name: string,
  file: string | undefined,
  { client, reference, json }: OutboxCheckOptions,
): Promise<number> {
  const { operations } = readConfig({ database: false, clients: false });
  const kind = outboxKinds.map((known) => configureKind(known, operations)).find((known) => known.name === name);
  if (kind === undefined)
    throw new UsageError(`There is no kind ${name}; known are ${outboxKinds.map((known) => known.name).join(', ')}`);
  const text = readPayload(file);
  const { codes, unchecked } = await openCodes(client);
  const problems = await findProblems(kind, text, reference, codes);
  if (json) print(JSON.stringify({ kind: name, problems, codesChecked: unchecked === null, why: unchecked }, null, 2));
  else {
    for (const problem of problems) print(toVisible(problem));
    if (problems.length === 0) print(`No problems were found in this payload of ${name}.`);
    if (unchecked !== null) print(`Codes were not checked: ${unchecked}`);
  }
  return problems.length === 0 ? 0 : 1;
}

function readPayload(file = '-'): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (cause) {
    throw new UsageError(
      `${file === '-' ? 'Standard input' : file} cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`,
    );
  }
}

/** Codes that are not compared with anything. */
const anyCode: CodeFinder = { find: async () => ({ id: 0 }) };

/**
 * Reads the stored codes of a client.
 * @returns the codes, and why they cannot be checked; null if they can
 */
async function openCodes(client: string | undefined): Promise<{ codes: CodeFinder; unchecked: string | null }> {
  if (client === undefined) return { codes: anyCode, unchecked: 'name the client with --client' };
  if (readConfig({ database: false, clients: false }).DATABASE_URL === undefined)
    return { codes: anyCode, unchecked: 'DATABASE_URL is not set' };
  const options = await withDatabase('outbox', (db) => readOptions(db, client));
  if (options.length === 0)
    return { codes: anyCode, unchecked: `no settings are stored for the client ${client}; run refresh-settings first` };
  return { codes: { find: async (list, code, idMember) => findCode(options, list, code, idMember) }, unchecked: null };
}

async function findProblems(
  kind: AnyKind,
  text: string,
  reference: string | undefined,
  codes: CodeFinder,
): Promise<readonly string[]> {
  const value = parse(text);
  if ('problem' in value) return [`payload: ${value.problem}`];
  const payload = JSON.stringify(value.read);
  const bytes = Buffer.byteLength(payload);
  if (bytes > maxBytes) return [`payload: has ${bytes} bytes; at most ${maxBytes} (16 MB) are taken`];
  const unstorable = findUnstorableReason(payload);
  if (unstorable !== null) return [`payload: ${unstorable}`];
  const context = { codes, signal: new AbortController().signal };
  try {
    await checkPayload(kind, { payload, reference: reference ?? guessReference(value.read) }, context);
    return [];
  } catch (error) {
    if (error instanceof PayloadError) return error.problems;
    throw error;
  }
}

function parse(text: string): { read: Json } | { problem: string } {
  try {
    return { read: parseExact(text) };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return { problem: `is not JSON that can be read: ${error.message}` };
  }
}

/** Without --reference, the reference is the order number of the payload, or any text. */
function guessReference(payload: Json): string {
  const number = isObject(payload) ? payload.externalOrderNumber : undefined;
  return typeof number === 'string' && number.trim() !== '' ? number : 'any';
}
