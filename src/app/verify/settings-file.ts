import { readFileSync, writeFileSync } from 'node:fs';
import type { Operation, OperationName } from '../../../config/operations.ts';
import { isObject, type Json, parseExact } from '../../core/json.ts';
import { UsageError } from '../cli/usage.ts';
import type { Judgement } from './finding.ts';
import type { Service } from './service.ts';

/** Entries of WAREHOUSE_OPERATIONS_FILE by operation. */
export type Entries = Readonly<Record<string, object>>;

/**
 * Returns the entries that checks found, with the method and path that each needs.
 * @param services the services of all clients, which share one file
 */
export function collectEntries(services: readonly Service[]): Entries {
  const found = new Map<OperationName, Partial<Operation>>();
  for (const service of services)
    for (const [name, entry] of service.learned) {
      const { method, path } = service.operation(name);
      found.set(name, { method, path, ...found.get(name), ...entry });
    }
  return Object.fromEntries(found) as Entries;
}

/** Returns the environment variables that checks found. */
export function collectVariables(judgements: readonly Judgement[]): Readonly<Record<string, string>> {
  const settings = judgements.flatMap((judgement) => judgement.settings);
  return Object.fromEntries(settings.flatMap((one) => (one.kind === 'variable' ? [[one.name, one.value]] : [])));
}

/**
 * Writes a file for WAREHOUSE_OPERATIONS_FILE: the entries of the file in use, with those that checks found.
 * @param inUse path of the file in use; undefined if there is none
 * @throws UsageError if the file cannot be written
 */
export function writeEntries(file: string, inUse: string | undefined, found: Entries): void {
  const kept: Json = inUse === undefined ? {} : parseExact(readFileSync(inUse, 'utf8'));
  const before = (isObject(kept) ? kept : {}) as Entries;
  const merged = Object.entries(found).map(([name, entry]) => [name, { ...before[name], ...entry }]);
  try {
    writeFileSync(file, `${JSON.stringify({ ...before, ...Object.fromEntries(merged) }, null, 2)}\n`);
  } catch (cause) {
    throw new UsageError(`${file} cannot be written: ${cause instanceof Error ? cause.message : String(cause)}`);
  }
}
