import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { type OperationName, type Operations, operations } from '../../../config/operations.ts';

/** Switches by the name of their operation. */
type Switches = { readonly [N in OperationName]?: object };

const list = (switches: Switches) => Object.entries(switches) as [OperationName, object][];

/** Returns the built-in operations with switches. */
export function withSwitches(switches: Switches): Operations {
  const changed = list(switches).map(([name, entry]) => [name, { ...operations[name], ...entry }]);
  return { ...operations, ...Object.fromEntries(changed) };
}

/**
 * Writes a file for WAREHOUSE_OPERATIONS_FILE that changes only switches, for one test. Returns its
 * path.
 */
export function writeSwitches(switches: Switches): string {
  const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-operations-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'operations.json');
  const entries = list(switches).map(([name, entry]) => {
    const { method, path } = operations[name];
    return [name, { method, path, ...entry }];
  });
  writeFileSync(file, JSON.stringify(Object.fromEntries(entries)));
  return file;
}
