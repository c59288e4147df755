import { readFileSync } from 'node:fs';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const pull = usePuller(database, sandbox);
const outbox = usePusher(database, sandbox);

/** Returns the blocks of SQL of a page, in order. */
function readBlocks(page: string): string[] {
  const text = readFileSync(new URL(`../../../docs/${page}`, import.meta.url), 'utf8');
  return [...text.matchAll(/```sql\n(.*?)```/gs)].map(([, block = '']) => block);
}

async function shipOrder(externalOrderNumber: string): Promise<void> {
  await sandbox.call('POST', '/_sandbox/ship', { client: 'default', externalOrderNumber });
  for (const job of ['pull-orders', 'pull-shipments'] as const) done(await pull(job));
}

test('the SQL of docs/first-order.md leads from the first query to an order and a return that are done', async () => {
  await sandbox.advance(12 * 86_400);
  for (const job of ['refresh-settings', 'pull-shipments', 'pull-orders'] as const)
    done(await pull(job));
  const [asAdministrator = '', ...blocks] = readBlocks('first-order.md');
  await database.query(asAdministrator);
  try {
    // One connection is the session of the ERP, which keeps its role.
    const session = database.open(1);
    await sql`set role erp_app`.execute(session);
    const results: Record<string, unknown>[][] = [];
    for (const block of blocks) {
      // The page says to ship the order, on the page of the sandbox.
      if (block.includes("'return.create'")) await shipOrder('SO-3001');
      for (const statement of block.split(/(?<=;.*)\n+/).filter((text) => text !== ''))
        results.push((await sql.raw<Record<string, unknown>>(statement).execute(session)).rows);
      await outbox.push();
    }
    const [orders, , , , feed, codes, , sent, , dead] = results;
    expect(orders).toHaveLength(20);
    expect(feed?.at(-1)).toMatchObject({ seq: 20 });
    expect(await database.query('select seq from warehouse.bookmark')).toEqual([{ seq: 20 }]);
    expect(codes).toContainEqual({ code: 'B2C', name: expect.any(String) });
    expect(sent).toMatchObject([{ status: 'done', order_id: expect.stringMatching(/^\d+$/) }]);
    expect(dead).toMatchObject([{ last_error: expect.stringContaining('BY-SHIP') }]);
    expect((await outbox.rows()).map(({ reference, status }) => [reference, status])).toEqual([
      ['SO-3001', 'done'],
      ['SO-3002', 'done'],
      ['RET-3001', 'done'],
    ]);
  } finally {
    await database.query('drop owned by erp_app cascade; drop role erp_app');
  }
});
