import { request } from 'node:http';
import { describe, expect, test } from 'vitest';
import { one, orderBody, useClient } from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);

const create = (number: string) => client.ask('v3.orders.create', { body: orderBody(number) });
const numbers = async () =>
  (await client.ask('v3.orders.list')).body.data.map(({ attributes }) => attributes.externalOrderNumber);
const fault = (effect: object, rule: object = {}) =>
  sandbox.faults({ operation: 'v3.orders.create', count: 1, effect, ...rule });

describe('the answer is cut off', () => {
  test.each([
    ['reset before the effect', { reset: true }, []],
    ['reset after the effect', { reset: true, afterEffect: true }, ['A-1']],
  ])('%s', async (_, effect, there) => {
    await fault(effect);
    await expect(create('A-1')).rejects.toThrow();
    expect(await numbers()).toEqual(there);
  });

  test.each([
    [500, {}, []],
    [500, { afterEffect: true }, ['A-1']],
    [503, { retryAfter: '7' }, []],
    [503, { afterEffect: true, retryAfter: 'Wed, 21 Oct 2026 07:28:00 GMT' }, ['A-1']],
  ])('status %i with %j', async (status, more, there) => {
    await fault({ status, ...more });
    const answer = await fetch(new URL('/v3/orders', sandbox.url), {
      method: 'POST',
      headers: { authorization: `bearer ${client.token}`, 'content-type': 'application/json' },
      body: JSON.stringify(orderBody('A-1')),
    });
    expect(answer.status).toBe(status);
    expect(answer.headers.get('retry-after')).toBe('retryAfter' in more ? more.retryAfter : null);
    expect(await numbers()).toEqual(there);
  });

  test('no answer at all, the effect before', async () => {
    await fault({ noAnswer: true, afterEffect: true });
    const gone = AbortSignal.timeout(200);
    const asked = fetch(new URL('/v3/orders', sandbox.url), {
      method: 'POST',
      headers: { authorization: `bearer ${client.token}`, 'content-type': 'application/json' },
      body: JSON.stringify(orderBody('A-1')),
      signal: gone,
    });
    await expect(asked).rejects.toThrow(/timeout/i);
    expect(await numbers()).toEqual(['A-1']);
  });

  test('the effect comes some time after the cut', async () => {
    await fault({ reset: true, effectAfterMs: 400 });
    await expect(create('A-1')).rejects.toThrow();
    expect(await numbers()).toEqual([]);
    await waitFor('the effect', async () => (await numbers()).length === 1);
  });

  test('an effect that is to come does not reach the world after the next', async () => {
    await fault({ reset: true, effectAfterMs: 200 });
    await expect(create('A-1')).rejects.toThrow();
    await sandbox.call('POST', '/_sandbox/reset', {});
    await client.logIn();
    await sandbox.faults({ operation: 'v3.orders.create', count: 1, effect: { reset: true, effectAfterMs: 400 } });
    await expect(create('B-1')).rejects.toThrow();
    await waitFor('the later effect', async () => (await numbers()).includes('B-1'));
    expect(await numbers()).toEqual(['B-1']);
  });

  test('a request that is refused has no effect after the cut either', async () => {
    await create('A-1');
    await fault({ reset: true, effectAfterMs: 1 });
    await expect(create('A-1')).rejects.toThrow();
    await fault({ status: 500, afterEffect: true });
    expect((await create('A-1')).status).toBe(500);
    expect(await numbers()).toEqual(['A-1']);
  });

  test('the request log says which requests a fault struck, and how long they took', async () => {
    await fault({ reset: true, delayMs: 50 });
    await expect(create('A-1')).rejects.toThrow();
    await create('A-2');
    const [cut, good] = (await sandbox.requests()).filter(({ operation }) => operation === 'v3.orders.create');
    expect(cut).toMatchObject({ faulty: true, status: null, client: 'default' });
    expect(cut?.durationMs).toBeGreaterThanOrEqual(50);
    expect(good).toMatchObject({ faulty: false, status: 200, durationMs: expect.any(Number) });
  });
});

describe('lists and searches lag behind writes', () => {
  const lag = (operation: string) => sandbox.faults({ operation, effect: { lagMs: 60_000 } });

  test('what was made is not listed yet; by id it is there', async () => {
    const { id } = one(await create('A-1'));
    await lag('v3.orders.list');
    await lag('v2.*');
    await lag('oldest.order.search');
    expect(await numbers()).toEqual([]);
    const query = 'filter[externalOrderNumber][in]=A-1';
    expect((await client.ask('v3.orders.list', { query })).body.data).toEqual([]);
    const body = { externalOrderNumber: 'A-1' };
    expect((await client.ask('v2.order.searchByBody', { body })).body.messageCode).toBe('NOK');
    expect((await client.ask('oldest.order.search', { body: { ExternalOrderNumber: 'A-1' } })).body.messageCode).toBe(
      'NOK',
    );
    expect((await client.ask('v3.orders.get', { path: { id } })).status).toBe(200);
    await sandbox.clearFaults();
    expect(await numbers()).toEqual(['A-1']);
  });

  test('it is listed once the lag is over', async () => {
    await sandbox.faults({ operation: 'v3.orders.list', effect: { lagMs: 400 } });
    await create('A-1');
    expect(await numbers()).toEqual([]);
    await waitFor('the order on the list', async () => (await numbers()).length === 1);
  });

  test('what was changed is listed as it was', async () => {
    await sandbox.seed(1, ['READY_TO_PICK']);
    const [order] = (await client.ask('v3.orders.list')).body.data;
    const made = one(await create('A-1'));
    await lag('v3.orders.list');
    const body = { data: { id: made.id, type: 'order', attributes: { reference: 'new' } } };
    await client.ask('v3.orders.update', { path: { id: made.id }, body });
    expect((await client.ask('v3.orders.list')).body.data).toEqual([order]);
    expect(one(await client.ask('v3.orders.get', { path: { id: made.id } })).attributes.reference).toBe('new');
  });
});

describe('rows of a list', () => {
  const ids = async () => (await client.ask('v3.shipments.list')).body.data.map(({ id }) => id);

  test('doubled, and in another order', async () => {
    await sandbox.seed(3);
    const usual = await ids();
    await sandbox.faults({ operation: 'v3.shipments.list', count: 1, effect: { duplicateRow: true } });
    expect(await ids()).toEqual([...usual, usual[0]]);
    await sandbox.faults({ operation: 'v3.shipments.list', count: 1, effect: { reverseRows: true } });
    expect(await ids()).toEqual([...usual].reverse());
    expect(await ids()).toEqual(usual);
    await sandbox.faults({
      operation: 'v2.shipment.list',
      count: 1,
      effect: { reverseRows: true, duplicateRow: true },
    });
    const { result } = (await client.ask('v2.shipment.list')).body;
    expect((result as { id: number }[]).map(({ id }) => id)).toEqual([usual[0], ...[...usual].reverse()]);
  });

  test('a row visible late, with a low id: nowhere until then', async () => {
    await sandbox.seed(3);
    const usual = await ids();
    const [, late = 0] = usual;
    const effect = { hideRow: { index: 1, seconds: 3_600 } };
    await sandbox.faults({ operation: 'v3.shipments.list', count: 1, effect });
    expect(await ids()).toEqual(usual.filter((id) => id !== late));
    await sandbox.advance(3_000);
    expect(await ids()).toEqual(usual.filter((id) => id !== late));
    expect((await client.ask('v3.shipments.get', { path: { id: late } })).status).toBe(404);
    expect((await client.ask('v2.shipment.search', { body: { id: late } })).body.result).toEqual([]);
    await sandbox.advance(700);
    expect(await ids()).toEqual(usual);
  });

  test('members missing and null', async () => {
    await sandbox.seed(1);
    const set = [{ path: ['data', 0, 'attributes', 'status'], value: null }, { path: ['data', 0, 'relationships'] }];
    await sandbox.faults({ operation: 'v3.shipments.list', count: 1, effect: { set } });
    const { body } = await client.fetch('GET', '/v3/shipments');
    expect(body.data[0]).toMatchObject({ attributes: { status: null } });
    expect(body.data[0]).not.toHaveProperty('relationships');
  });
});

describe('the bytes of an answer', () => {
  /** A plain GET that shows what arrives, and when. */
  function receive(): Promise<{ status: number; type: string; text: string; pieces: number; broken: boolean }> {
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
  const bent = async (effect: object) => {
    await sandbox.faults({ operation: 'v3.shipments.list', count: 1, effect });
    return receive();
  };

  test('cut short', async () => {
    const { text, broken } = await bent({ truncate: true });
    expect(broken).toBe(true);
    const unavailable = { status: 503, retryAfter: '5', truncate: true };
    expect(await bent(unavailable)).toMatchObject({ status: 503, broken: true });
    expect(() => JSON.parse(text)).toThrow();
  });

  test('no JSON, of another type, and in slow drops', async () => {
    const invalid = await bent({ invalidJson: true });
    expect(() => JSON.parse(invalid.text)).toThrow();
    expect((await bent({ contentType: 'text/html' })).type).toBe('text/html');
    const usual = await receive();
    const slow = await bent({ drip: { bytes: 10, everyMs: 5 } });
    expect(slow.text).toBe(usual.text);
    expect(slow.pieces).toBeGreaterThan(usual.pieces);
  });
});

describe('a rule', () => {
  test('strikes the nth time, so often, with a probability, for one client', async () => {
    const failing = async (asker = client) => (await asker.ask('v3.shipments.list')).status === 500;
    await sandbox.faults({
      operation: 'v3.shipments.list',
      client: 'default',
      after: 2,
      count: 1,
      effect: { status: 500 },
    });
    await sandbox.faults({ operation: 'v3.*', after: 9, effect: { status: 502 } });
    const seen = [];
    for (let index = 0; index < 5; index++) seen.push(await failing());
    expect(seen).toEqual([false, false, true, false, false]);
    await sandbox.clearFaults();
    await sandbox.faults({ operation: 'v3.*', probability: 0.5, effect: { status: 500 } });
    let struck = 0;
    for (let index = 0; index < 60; index++) if (await failing()) struck++;
    expect(struck).toBeGreaterThan(10);
    expect(struck).toBeLessThan(50);
    expect(await sandbox.call('GET', '/_sandbox/faults')).toMatchObject([{ operation: 'v3.*', hits: struck }]);
  });

  test('counts requests that another rule struck', async () => {
    const rule = { operation: 'v3.shipments.list' };
    await sandbox.faults(
      { ...rule, count: 1, effect: { status: 500 } },
      { ...rule, after: 1, effect: { status: 502 } },
    );
    const statuses = [];
    for (let index = 0; index < 3; index++) statuses.push((await client.ask('v3.shipments.list')).status);
    expect(statuses).toEqual([500, 502, 502]);
  });

  test.each<[object, RegExp]>([
    [{ operation: 'v3.shipment.list', effect: { reset: true } }, /v3\.shipment\.list is none of common\.token/],
    [{ operation: '*', effect: { reset: true, sometimes: true } }, /sometimes/],
    [{ operation: '*', effect: { afterEffect: true } }, /status, noAnswer or reset/],
    [{ operation: '*', effect: { set: [{ path: ['__proto__', 'x'] }] } }, /path/],
    [{ operation: '*', effect: { reset: true, effectAfterMs: 3e9 } }, /effectAfterMs/],
  ])('%j is refused in words', async (rule, words) => {
    await expect(sandbox.call('POST', '/_sandbox/faults', rule)).rejects.toThrow(words);
  });
});
