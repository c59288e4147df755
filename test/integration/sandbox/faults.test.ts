import { describe, expect, test } from 'vitest';
import { useClient } from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);

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
