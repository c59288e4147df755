import { expect, test } from 'vitest';
import { silentLogger } from '../../../../src/core/logger.ts';
import { buildPostgresBackend, migrateQueue } from '../../../../src/schedule/backend.ts';
import { openQueuePool } from '../../../../src/schedule/open-queue.ts';
import { makeDaemon, useAdmin } from '../../../helpers/admin.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { waitFor } from '../../../helpers/wait.ts';

const database = useDatabase();
const admin = useAdmin(database);

test('/queues shows the schedulers, when they fire, and what failed; it needs a token', async () => {
  const pool = openQueuePool(database.url, silentLogger);
  await migrateQueue(pool);
  const backend = buildPostgresBackend(pool);
  const queue = backend.queue();
  await queue.upsertJobScheduler('pull-orders', { every: 600_000 }, { name: 'pull-orders' });
  await queue.upsertJobScheduler('reconcile', { every: 300 }, { name: 'reconcile' });
  const worker = backend.worker(async (name) => {
    throw new Error(`no place for ${name}`);
  });
  const running = worker.run();
  const queues = new Map([['schedules', queue]]);
  try {
    const ADMIN_TOKEN = 'a-token-of-more-than-thirty-two-characters';
    const { visitor } = await admin({ ADMIN_TOKEN }, undefined, {}, () => makeDaemon({ queues }));
    const authorization = `Bearer ${ADMIN_TOKEN}`;
    const json = { accept: 'application/json', authorization };
    const read = async () =>
      (await (await visitor.get('/queues', json)).json()) as {
        schedulers: { name: string; lastFailure: { words: string } | null }[];
      };
    // Both fire at once; which of them fails first is chance.
    const schedulers = await waitFor('a failed firing of each', async () => {
      const seen = await read();
      return seen.schedulers.every(({ lastFailure }) => lastFailure !== null)
        ? seen.schedulers
        : null;
    });
    expect(schedulers.map(({ name }) => name).sort()).toEqual(['pull-orders', 'reconcile']);
    expect(schedulers.find(({ name }) => name === 'reconcile')).toMatchObject({
      everyMs: 300,
      isLost: false,
      lastFailure: { words: 'no place for reconcile' },
    });
    const page = await (await visitor.get('/queues', { authorization })).text();
    expect(page).toContain('href="/runs?job=pull-orders"');
    expect(page).toContain('no place for reconcile');
    expect((await visitor.get('/queues')).status).toBe(303);
  } finally {
    await worker.close();
    await running;
    await queue.close();
    await pool.end();
  }
});
