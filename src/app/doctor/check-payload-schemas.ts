import { isDeepStrictEqual } from 'node:util';
import type { Operations } from '../../../config/operations.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { readOutboxKinds } from '../../erp/outbox/kinds.ts';
import { listPayloadSchemas } from '../../sync/push/kinds/registry.ts';
import { type Finding, ok, warn } from './finding.ts';

/**
 * Compares the payload schemas that `migrate` stored, and that `fulfilment.outbox_check` uses, with those of this process.
 * They differ if the file of operations has changed since, or if `migrate` did not have it.
 */
export async function checkPayloadSchemas(db: Database, operations: Operations): Promise<readonly Finding[]> {
  const stored = await readOutboxKinds(db);
  const differing = listPayloadSchemas(operations)
    .filter(({ kind, schema }) => !isDeepStrictEqual(stored.get(kind), JSON.parse(JSON.stringify(schema))))
    .map(({ kind }) => kind);
  if (differing.length === 0) return [ok('payloads', 'SQL checks payloads by the rules of this process')];
  return [
    warn(
      'payloads',
      `fulfilment.outbox_check has other rules than this process for ${differing.join(', ')}`,
      'run: fulfilment-sync migrate, with the same WAREHOUSE_OPERATIONS_FILE as the workers',
    ),
  ];
}
