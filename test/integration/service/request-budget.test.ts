import { describe, expect, test } from 'vitest';
import { StoppedError } from '../../../src/core/errors.ts';
import { takeRequests } from '../../../src/service/sql/request-budgets.ts';
import { RequestBudget } from '../../../src/service/transport/request-budget.ts';
import { useDatabase } from '../../helpers/database.ts';
import { sendJson, useServices, withTokens } from '../../helpers/processes/service.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const services = useServices();
const signal = new AbortController().signal;
const identity = 'an account';
const startService = () =>
  services.start(
    withTokens((_request, response) => sendJson(response, 200, { data: [], links: {} })),
  );

/** A budget as a process has it, with the times at which its requests began. */
function openBudget(perSecond: number) {
  const began: number[] = [];
  const db = database.open(1);
  const budget = new RequestBudget(perSecond, (wanted) =>
    takeRequests(db, { identity, perSecond }, wanted),
  );
  const take = async () => {
    await budget.waitForTurn(signal);
    began.push(Date.now());
  };
  return {
    budget,
    began,
    take,
    takeMany: (count: number) => Promise.all(Array.from({ length: count }, take)),
  };
}

function countBySecond(times: readonly number[]): number[] {
  const counts = new Map<number, number>();
  for (const atMs of times)
    counts.set(Math.floor(atMs / 1_000), (counts.get(Math.floor(atMs / 1_000)) ?? 0) + 1);
  return [...counts.values()];
}

describe('the budget of an account', () => {
  test('lets no more requests of several processes begin in a second', async () => {
    const all = [openBudget(40), openBudget(40), openBudget(40)];
    await Promise.all(all.map(({ takeMany }) => takeMany(40)));
    const counts = countBySecond(all.flatMap(({ began }) => began));
    expect(Math.max(...counts)).toBeLessThanOrEqual(40);
  });

  test('is all for the only process that sends', async () => {
    const { budget, began, take } = openBudget(25);
    const senders = Array.from({ length: 4 }, async () => {
      for (;;) await take();
    });
    await waitFor('a second with all requests', () => countBySecond(began).includes(25));
    expect(Math.max(...countBySecond(began))).toBe(25);
    budget.close();
    for (const { status } of await Promise.allSettled(senders)) expect(status).toBe('rejected');
  });

  test('loses what a dead process took only until the next second', async () => {
    const dead = await takeRequests(database.db, { identity, perSecond: 4 }, 4);
    const next = await takeRequests(database.db, { identity, perSecond: 4 }, 1);
    // Counted from the moment of the second grant, however late that is.
    const [after] = await database.query<{ isSoon: boolean }>(
      `select next_at <= date_trunc('second', taken_at) + interval '2 seconds' as "isSoon" from sync.request_budgets`,
    );
    expect(dead.requests).toBeGreaterThan(0);
    expect(next).toMatchObject({ requests: 1, startsInMs: expect.any(Number) });
    expect(next.startsInMs).toBeLessThanOrEqual(1_000);
    expect(after).toEqual({ isSoon: true });
  });

  test('follows the clock of the database if it goes back', async () => {
    await takeRequests(database.db, { identity, perSecond: 4 }, 1);
    await database.query(
      "update sync.request_budgets set next_at = next_at + interval '1 hour', taken_at = taken_at + interval '1 hour'",
    );
    const { startsInMs } = await takeRequests(database.db, { identity, perSecond: 4 }, 1);
    expect(startsInMs).toBeLessThan(2_000);
  });
});

describe('a request that waits for the budget', () => {
  test('ends with the signal, and at the stop', async () => {
    const { budget } = openBudget(1);
    await budget.waitForTurn(signal);
    const abort = new AbortController();
    const waiting = [budget.waitForTurn(abort.signal), budget.waitForTurn(signal)];
    abort.abort(new StoppedError());
    await expect(waiting[0]).rejects.toMatchObject({ code: 'stopped' });
    budget.close();
    await expect(waiting[1]).rejects.toMatchObject({ code: 'stopped' });
    await expect(budget.waitForTurn(signal)).rejects.toMatchObject({ code: 'stopped' });
  });

  test('is not sent if the database does not answer', async () => {
    const service = await startService();
    const warehouse = services.connect(service.url, {
      REQUESTS_PER_SECOND: '5',
      DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
    });
    await expect(warehouse.list('v3.shipments.list', '', { signal })).rejects.toMatchObject({
      code: 'ECONNREFUSED',
    });
    expect(service.requests).toEqual([]);
  });

  test('is counted with the token requests, by the account', async () => {
    const service = await startService();
    const env = { REQUESTS_PER_SECOND: '1000', DATABASE_URL: database.url };
    for (const warehouse of [
      services.connect(service.url, env),
      services.connect(service.url, env),
    ])
      await warehouse.list('v3.shipments.list', '', { signal });
    const rows = await database.query<{ at: Date }>(
      'select next_at as at from sync.request_budgets',
    );
    expect(service.requests).toHaveLength(4);
    expect(rows).toHaveLength(1);
    await services
      .connect(service.url, { DATABASE_URL: database.url })
      .list('v3.shipments.list', '', { signal });
    expect(await database.query('select next_at as at from sync.request_budgets')).toEqual(rows);
  });
});
