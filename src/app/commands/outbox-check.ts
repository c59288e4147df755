import { readConfig } from '../../../config/env.ts';
import { findUnstorableReason, isObject, type Json, parseExact } from '../../core/json.ts';
import { readServiceLists } from '../../erp/resources/service-lists.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import {
  anyCode,
  type CodeFinder,
  describeUnlisted,
  filterWarehouses,
  findCode,
} from '../../sync/push/payload/find-code.ts';
import { type AnyKind, applyOperations, type CheckContext, PayloadError } from '../../sync/push/payload/kind.ts';
import { checkPayload } from '../../sync/push/payload/payload.ts';
import { type CommonOptions, print, printJson, readInput, UsageError, withDatabase } from '../cli/command-line.ts';

export interface OutboxCheckOptions extends CommonOptions {
  readonly reference?: string;
}

/** Maximum size of a payload: the INSERT refuses more. */
const maxBytes = 16 * 1024 * 1024;

/**
 * Checks a payload as a worker does before it sends a row, without inserting or sending anything. Codes are compared
 * with the stored service lists of a client, if there is a database.
 * @throws UsageError if there is no such kind, or the file cannot be read
 */
export async function outboxCheckCommand(
  name: string,
  file: string | undefined,
  { client, reference, json }: OutboxCheckOptions,
): Promise<number> {
  const { operations, DATABASE_URL } = readConfig({ database: false, clients: false });
  const declared = outboxKinds.find((known) => known.name === name);
  if (declared === undefined)
    throw new UsageError(`There is no kind ${name}; known are ${outboxKinds.map((known) => known.name).join(', ')}`);
  const kind = applyOperations(declared, operations);
  const text = readInput(file ?? '-');
  const { codes, unchecked } = await openCodes(client, DATABASE_URL !== undefined);
  const context = { codes, operations, signal: new AbortController().signal };
  const problems = await findProblems(kind, text, reference, context);
  if (json) printJson({ kind: name, problems, codesChecked: unchecked === null, why: unchecked });
  else {
    for (const problem of problems) print(problem);
    if (problems.length === 0) print(`No problems were found in this payload of ${name}.`);
    if (unchecked !== null) print(`Codes were not checked: ${unchecked}`);
  }
  return problems.length === 0 ? 0 : 1;
}

/** Reads the stored codes of a client. */
async function openCodes(
  client: string | undefined,
  hasDatabase: boolean,
): Promise<{ codes: CodeFinder; unchecked: string | null }> {
  if (client === undefined) return { codes: anyCode, unchecked: 'name the client with --client' };
  if (!hasDatabase) return { codes: anyCode, unchecked: 'DATABASE_URL is not set' };
  const lists = await withDatabase('outbox', (db) => readServiceLists(db, client));
  const { options } = lists;
  if (options.length === 0)
    return {
      codes: anyCode,
      unchecked: `no service lists are stored for the client ${client}; run refresh-settings first`,
    };
  const codes: CodeFinder = {
    find: async (list, code, idMember) => findCode(options, list, code, idMember),
    findListProblem: async (list, code, form) => describeUnlisted(options, list, code, form),
    findWarehouses: async (methodId) => filterWarehouses(lists, methodId),
  };
  return { codes, unchecked: null };
}

async function findProblems(
  kind: AnyKind,
  text: string,
  reference: string | undefined,
  context: CheckContext,
): Promise<readonly string[]> {
  const value = parse(text);
  if ('problem' in value) return [`payload: ${value.problem}`];
  const payload = JSON.stringify(value.read);
  const bytes = Buffer.byteLength(payload);
  if (bytes > maxBytes) return [`payload: has ${bytes} bytes; at most ${maxBytes} (16 MB) are taken`];
  const unstorable = findUnstorableReason(payload);
  if (unstorable !== null) return [`payload: ${unstorable}`];
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
