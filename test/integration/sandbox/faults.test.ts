import { request } from 'node:http';
import { describe, expect, test } from 'vitest';
import { orderBody, readOne, useClient } from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);

const create = (number: string) => client.ask('v3.orders.create', { body: orderBody(number) });
const readNumbers = async () =>
  (await client.ask('v3.orders.list')).body.data.map(
    ({ attributes }) => attributes.externalOrderNumber,
  );
const fault = (effect: object, rule: object = {}) =>
  sandbox.faults({ operation: 'v3.orders.create', count: 1, effect, ...rule });

describe('the answer is cut off', () => {
  test('the effect comes some time after the cut', async () => {
    await fault({ reset: true, effectAfterMs: 400 });
    await expect(create('A-1')).rejects.toThrow();
    expect(await readNumbers()).toEqual([]);
    await waitFor('the effect', async () => (await readNumbers()).length === 1);
  });
});

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

  test('a new order is listed when the lag is over', async () => {
    await sandbox.faults({ operation: 'v3.orders.list', effect: { lagMs: 400 } });
    await create('A-1');
    expect(await readNumbers()).toEqual([]);
    await waitFor('the order on the list', async () => (await readNumbers()).length === 1);
  });
});

describe('rows of a list', () => {
  const readIds = async () => (await client.ask('v3.shipments.list')).body.data.map(({ id }) => id);

  test('can be repeated and reversed', async () => {
    await sandbox.seed(3);
    const usual = await readIds();
    await sandbox.faults({
      operation: 'v3.shipments.list',
      count: 1,
      effect: { duplicateRow: true },
    });
    expect(await readIds()).toEqual([...usual, usual[0]]);
    await sandbox.faults({
      operation: 'v3.shipments.list',
      count: 1,
      effect: { reverseRows: true },
    });
    expect(await readIds()).toEqual([...usual].reverse());
    expect(await readIds()).toEqual(usual);
    await sandbox.faults({
      operation: 'v2.shipment.list',
      count: 1,
      effect: { reverseRows: true, duplicateRow: true },
    });
    const { result } = (await client.ask('v2.shipment.list')).body;
    expect((result as { id: number }[]).map(({ id }) => id)).toEqual([
      usual[0],
      ...[...usual].reverse(),
    ]);
  });

  test('can appear late with a low id, and do not exist before', async () => {
    await sandbox.seed(3);
    const usual = await readIds();
    const [, lateId = 0] = usual;
    const effect = { hideRow: { index: 1, seconds: 3_600 } };
    await sandbox.faults({ operation: 'v3.shipments.list', count: 1, effect });
    expect(await readIds()).toEqual(usual.filter((id) => id !== lateId));
    await sandbox.advance(3_000);
    expect(await readIds()).toEqual(usual.filter((id) => id !== lateId));
    expect((await client.ask('v3.shipments.get', { path: { id: lateId } })).status).toBe(404);
    expect((await client.ask('v2.shipment.search', { body: { id: lateId } })).body.result).toEqual(
      [],
    );
    await sandbox.advance(700);
    expect(await readIds()).toEqual(usual);
  });
});

describe('the bytes of an answer', () => {
  /** Sends a GET with plain node:http and returns what arrives, and in how many pieces. */
  function receive(): Promise<{
    status: number;
    type: string;
    text: string;
    pieces: number;
    broken: boolean;
  }> {
    return new Promise((resolve, reject) => {
      const headers = { authorization: `bearer ${client.token}` };
      const sent = request(new URL('/v3/shipments', sandbox.url), { headers }, (answer) => {
        let [text, pieces] = ['', 0];
        answer.on('data', (part: Buffer) => {
          text += part.toString();
          pieces++;
        });
        const status = answer.statusCode ?? 0;
        const end = (broken: boolean) =>
          resolve({ status, type: answer.headers['content-type'] ?? '', text, pieces, broken });
        answer.on('end', () => end(false));
        answer.on('error', () => end(true));
      });
      sent.on('error', reject);
      sent.end();
    });
  }
  const receiveWith = async (effect: object) => {
    await sandbox.faults({ operation: 'v3.shipments.list', count: 1, effect });
    return receive();
  };

  test('can be no JSON, have another type, and arrive slowly', async () => {
    const invalid = await receiveWith({ invalidJson: true });
    expect(() => JSON.parse(invalid.text)).toThrow();
    expect((await receiveWith({ contentType: 'text/html' })).type).toBe('text/html');
    const usual = await receive();
    const slow = await receiveWith({ drip: { bytes: 10, everyMs: 5 } });
    expect(slow.text).toBe(usual.text);
    expect(slow.pieces).toBeGreaterThan(usual.pieces);
  });
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
