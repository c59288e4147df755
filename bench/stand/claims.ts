import type { Database } from '../../src/db/pool.ts';
import { claimRowsIn } from '../../src/push/sql/claim-rows.ts';

class RollbackError extends Error {}

/**
 * Measures claims, and rolls each of them back.
 * @returns milliseconds of each claim
 * @throws Error if a claim finds no rows
 */
export async function timeClaims(
  db: Database,
  client: string,
  identity: string,
  rounds: number,
): Promise<number[]> {
  const options = {
    client,
    identity,
    kinds: {
      names: ['order.create', 'order.update', 'order.cancel'],
      stamped: ['order.create'],
      lingerMs: 60_000,
    },
    maxRows: 8,
    maxBytes: 8 * 1024 * 1024,
    takesLarge: true,
    worker: 'bench',
    held: 0,
  };
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) {
    await db
      .transaction()
      .execute(async (trx) => {
        const startedAtMs = performance.now();
        const { rows } = await claimRowsIn(trx, options);
        times.push(performance.now() - startedAtMs);
        if (rows.length === 0) throw new Error('nothing was claimed');
        throw new RollbackError();
      })
      .catch((error: unknown) => {
        if (!(error instanceof RollbackError)) throw error;
      });
  }
  return times;
}
