import { readConfig } from '../../../config/env.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { applyOperations, type CodeFinder } from '../../sync/push/payload/kind.ts';
import { anyCode } from '../../sync/push/payload/setting-codes.ts';
import { type CommonOptions, print, printJson, readInput, UsageError, withDatabase } from '../cli/command-line.ts';
import { findPayloadProblems, readStoredCodes } from '../terminal/check-payload.ts';

export interface OutboxCheckOptions extends CommonOptions {
  readonly reference?: string;
}

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
  const problems = await findPayloadProblems(kind, text, reference, context);
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
): Promise<{ codes: CodeFinder; unchecked: string | null }> {
  if (client === undefined) return { codes: anyCode, unchecked: 'name the client with --client' };
  if (!hasDatabase) return { codes: anyCode, unchecked: 'DATABASE_URL is not set' };
  return withDatabase('outbox', (db) => readStoredCodes(db, client));
}
