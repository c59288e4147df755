import { describe, expect, test } from 'vitest';
import { orderBody, readOne, useClient } from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);

const create = (number: string) => client.ask('v3.orders.create', { body: orderBody(number) });
const readNumbers = async () =>
  (await client.ask('v3.orders.list')).body.data.map(
    ({ attributes }) => attributes.externalOrderNumber,
  );

describe('lists and searches lag behind writes', () => {
  const lag = (operation: string) => sandbox.faults({ operation, effect: { lagMs: 60_000 } });

  test('a new order is not listed yet, but can be read by id', async () => {
    const { id } = readOne(await create('A-1'));
    await lag('v3.orders.list');
    await lag('v2.*');
    await lag('oldest.order.search');
    expect(await readNumbers()).toEqual([]);
    const query = 'filter[externalOrderNumber][in]=A-1';
    expect((await client.ask('v3.orders.list', { query })).body.data).toEqual([]);
    const body = { externalOrderNumber: 'A-1' };
    expect((await client.ask('v2.order.searchByBody', { body })).body.messageCode).toBe('NOK');
    expect(
      (await client.ask('oldest.order.search', { body: { ExternalOrderNumber: 'A-1' } })).body
        .messageCode,
    ).toBe('NOK');
    expect((await client.ask('v3.orders.get', { path: { id } })).status).toBe(200);
    await sandbox.clearFaults();
    expect(await readNumbers()).toEqual(['A-1']);
  });
});

test('rows of a list can be repeated and reversed', async () => {
  await sandbox.seed(3);
  const readIds = async () => (await client.ask('v3.shipments.list')).body.data.map(({ id }) => id);
  const usual = await readIds();
  const effect = { duplicateRow: true, reverseRows: true };
  await sandbox.faults({ operation: 'v3.shipments.list', count: 1, effect });
  expect(await readIds()).toEqual([usual[0], ...usual.toReversed()]);
  expect(await readIds()).toEqual(usual);
});

describe('a rule', () => {
  test('applies after n requests, a number of times, with a probability, or for one client', async () => {
    const isFailing = async (asker = client) =>
      (await asker.ask('v3.shipments.list')).status === 500;
    await sandbox.faults({
      operation: 'v3.shipments.list',
      client: 'default',
      after: 2,
      count: 1,
      effect: { status: 500 },
    });
    await sandbox.faults({ operation: 'v3.*', after: 9, effect: { status: 502 } });
    const seen = [];
    for (let index = 0; index < 5; index++) seen.push(await isFailing());
    expect(seen).toEqual([false, false, true, false, false]);
    expect(await sandbox.call('GET', '/_sandbox/faults')).toMatchObject([{ operation: 'v3.*' }]);
    await sandbox.clearFaults();
    await sandbox.faults({ operation: 'v3.*', probability: 0.5, effect: { status: 500 } });
    let hits = 0;
    for (let index = 0; index < 60; index++) if (await isFailing()) hits++;
    expect(hits).toBeGreaterThan(10);
    expect(hits).toBeLessThan(50);
    expect(await sandbox.call('GET', '/_sandbox/faults')).toMatchObject([
      { operation: 'v3.*', hits },
    ]);
  });

  test.each<[object, RegExp]>([
    [
      { operation: 'v3.shipment.list', effect: { reset: true } },
      /no operation matches v3\.shipment\.list; known are common\.token/,
    ],
    [{ operation: '*', effect: { reset: true, sometimes: true } }, /sometimes/],
    [{ operation: '*', effect: { afterEffect: true } }, /status, noAnswer or reset/],
    [{ operation: '*', effect: { set: [{ path: ['__proto__', 'x'] }] } }, /path/],
    [{ operation: '*', effect: { reset: true, effectAfterMs: 3e9 } }, /effectAfterMs/],
  ])('%j is refused with a reason', async (rule, words) => {
    await expect(sandbox.call('POST', '/_sandbox/faults', rule)).rejects.toThrow(words);
  });
});
