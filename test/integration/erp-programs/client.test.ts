import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { z } from 'zod';
import {
  type Change,
  ConnectionLostError,
  checkPayload,
  consumeChanges,
  followChanges,
  handleChanges,
  insertOutboxRow,
  type OutboxKind,
  type Payloads,
  type Queryable,
  type Rows,
  readChangesSince,
  readOrderState,
  readRow,
  selectList,
  startConsumer,
} from '../../../src/client/client.ts';
import { appendChanges } from '../../../src/erp/mirror/feed.ts';
import type { payloadSchemas } from '../../../src/payloads/payloads.ts';
import { useDatabase } from '../../helpers/database.ts';
import { dailyJobs, done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const pull = usePuller(database, sandbox);
const outbox = usePusher(database, sandbox);

const pools: pg.Pool[] = [];
afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => pool.end()));
});
/** Opens a pool as a program of the ERP does: with its own role, and without type parsers of ours. */
function openPool(max = 3): pg.Pool {
  const url = new URL(database.url);
  url.searchParams.set('options', '-c role=fulfilment_writer');
  const pool = new pg.Pool({
    connectionString: url.href.replaceAll('+', '%20'),
    max,
    application_name: 'test program',
    keepAlive: true,
  });
  pool.on('error', () => undefined);
  pools.push(pool);
  return pool;
}
const order = {
  externalOrderNumber: 'SO-1',
  orderType: 'B2C',
  locale: 'nl-NL',
  email: undefined,
  items: [{ sku: 'MUG-BLUE', quantity: 2, price: '9.95' }],
  deliveryAddress: { lastName: 'de Vries', street1: 'Keizersgracht 12', postcode: '1015CJ', countryCode: 'NL' },
} satisfies Payloads['order.create'];
const append = async (...ids: number[]) => {
  for (const id of ids)
    await database.db
      .transaction()
      .execute((trx) => appendChanges(trx, 'default', [{ entity: 'shipments', id, operation: 'updated' }]));
};

// What the types allow, the schemas read.
type Frozen<T> = T extends (infer E)[]
  ? readonly Frozen<E>[]
  : T extends object
    ? { readonly [K in keyof T]: Frozen<T[K]> }
    : T;
type Readable = { [K in OutboxKind]: Payloads[K] extends Frozen<z.input<(typeof payloadSchemas)[K]>> ? true : false };
const readable: Record<OutboxKind, true> = {} as Readable;

describe('insertOutboxRow', () => {
  test('inserts a row in the transaction of the program, which a worker carries out', async () => {
    expect(readable).toEqual({});
    const pool = openPool();
    const db = await pool.connect();
    await db.query('begin');
    const id = await insertOutboxRow(db, { kind: 'order.create', reference: 'SO-1', payload: order });
    expect(await outbox.rows()).toEqual([]);
    await db.query('commit');
    db.release();
    await outbox.push();
    expect(await readRow(pool, { entity: 'outbox', client: 'default', id, key: null })).toMatchObject({
      id,
      status: 'done',
      attempts: 1,
      created_at: expect.any(Date),
    });
    expect(await readOrderState(pool, 'SO-1')).toMatchObject({ state: 'accepted', ordered: 2, tracking_urls: [] });
    expect(await readOrderState(pool, 'SO-9')).toBeNull();
  });

  test('names every wrong member, and inserts nothing', async () => {
    const pool = openPool();
    const wrong = { ...order, externalOrderNumber: 'SO-2', items: [{ sku: '', quantity: 0 }], colour: 'red' };
    const inserted = insertOutboxRow(pool, { kind: 'order.create', reference: 'SO-1', payload: wrong });
    await expect(inserted).rejects.toMatchObject({
      code: 'payload_refused',
      problems: [
        { path: 'items[0].sku', problem: 'must not be empty' },
        { path: 'items[0].quantity', problem: 'must be at least 1' },
        { path: 'colour', problem: 'is not a known member and must be removed' },
        { path: 'externalOrderNumber', problem: 'must equal the reference of the row, SO-1' },
      ],
    });
    await expect(
      insertOutboxRow(pool, { kind: 'order.create', reference: 'SO-1', payload: wrong }, { check: 'database' }),
    ).rejects.toThrow('items[0].quantity: must be at least 1');
    expect(await outbox.rows()).toEqual([]);
    await insertOutboxRow(pool, { kind: 'order.create', reference: 'SO-1', payload: wrong }, { check: 'none' });
    await outbox.push();
    expect((await outbox.rows()).map(({ status }) => status)).toEqual(['dead']);
  });

  test.each([
    [{ kind: 'order.update', reference: 'A', payload: {} }, 'payload'],
    [{ kind: 'order_item.cancel', reference: 'A', payload: { orderItemId: 1, sku: 'A' } }, 'payload'],
    [{ kind: 'order.cancel', reference: ' ', payload: {} }, 'reference'],
    [
      {
        kind: 'return.create',
        reference: 'A',
        payload: { shipmentId: 1, items: [{ shipmentItemId: 1, quantity: 1 }] },
      },
      'items[0].reason',
    ],
    [{ kind: 'order.update', reference: 'A', payload: { reference: 'a\u0000b' } }, 'payload'],
    [{ kind: 'product.save', reference: 'A', payload: { name: '' } }, 'name'],
  ] as const)('checkPayload finds the problem of %j', (request, path) => {
    expect(checkPayload(request).map((problem) => problem.path)).toEqual([path]);
  });
});

describe('the feed', () => {
  test('every row that it names can be read, with the types that Rows states', async () => {
    const pool = openPool();
    await startConsumer(pool, 'all', { after: 0 });
    await sandbox.advance(12 * 86_400);
    await database.query("insert into fulfilment.stock_watch (sku) values ('MUG-RED')");
    await insertOutboxRow(pool, { kind: 'order.create', reference: 'SO-1', payload: order });
    await outbox.push();
    for (const job of dailyJobs) done(await pull(job));
    const seen = new Set<string>();
    for (;;) {
      const changes: Change[] = await consumeChanges(pool, 'all', 2_000);
      if (changes.length === 0) break;
      // One row of each table, and all rows whose key has several parts.
      for (const change of changes.filter(({ entity }) => !seen.has(entity))) {
        const row = await readRow(pool, change);
        expect([change, row === null]).toEqual([change, false]);
        seen.add(change.entity);
      }
    }
    expect([...seen].sort()).toEqual(
      expect.arrayContaining(['order_addresses', 'orders', 'outbox', 'parcels', 'setting_options', 'stock_levels']),
    );
    for (const [name, columns] of readDeclaredTypes()) {
      const { rows } = await pool.query<Record<string, unknown>>(
        `select ${selectList(name)} from fulfilment.${name} limit 5`,
      );
      for (const [column, value] of rows.flatMap((row) => Object.entries(row)))
        if (value !== null && columns.get(column) !== 'Json')
          expect([name, column, typeOf(value)]).toEqual([name, column, columns.get(column)]);
    }
  });

  test('a handler that fails keeps nothing, and gets the same changes again', async () => {
    const pool = openPool();
    await database.query('create table public.seen (id int); grant all on public.seen to fulfilment_writer');
    await startConsumer(pool, 'orders', { after: 0 });
    await append(1, 2, 3);
    let fails = true;
    const handle = async ({ id }: Change, db: Queryable) => {
      await db.query('insert into public.seen values ($1)', [id]);
      if (id === 2 && fails) throw new Error('no');
    };
    await expect(handleChanges(pool, { consumer: 'orders', handle })).rejects.toThrow('no');
    expect(await database.query('select * from public.seen')).toEqual([]);
    fails = false;
    expect(await handleChanges(pool, { consumer: 'orders', handle, pageSize: 2 })).toBe(2);
    expect(await handleChanges(pool, { consumer: 'orders', handle, pageSize: 2 })).toBe(1);
    expect(await database.query('select id from public.seen order by id')).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }]);
    expect((await readChangesSince(pool, 1)).map(({ seq, id }) => [seq, id])).toEqual([
      [2, 2],
      [3, 3],
    ]);
  });

  test('a program that follows continues on another connection after it lost one', async () => {
    const pool = openPool();
    await startConsumer(pool, 'orders', { after: 0 });
    const seen: (number | null)[] = [];
    const lost: unknown[] = [];
    const stop = new AbortController();
    const following = followChanges(pool, {
      consumer: 'orders',
      handle: async ({ id }) => void seen.push(id),
      signal: stop.signal,
      lookEveryMs: 60_000,
      onReconnect: (error) => lost.push(error),
    });
    await waitFor('the program to listen', async () => (await listening()).length > 0);
    await append(1);
    await waitFor('the first change', () => seen.length === 1);
    for (const [nth, { pid }] of (await listening()).entries()) {
      await database.query('select pg_terminate_backend($1)', [pid]);
      await append(2 + nth);
    }
    await waitFor('the second change', () => seen.length === 2);
    expect(lost).toEqual([expect.any(ConnectionLostError)]);
    stop.abort();
    await following;
    expect(seen).toEqual([1, 2]);
  });

  test.each(['ENOENT', '57P01', '08006'])('an error %s of a handler ends a program with a pool', async (code) => {
    await startConsumer(openPool(), 'orders', { after: 0 });
    await append(1);
    const error = Object.assign(new Error('of another system'), { code });
    const onReconnect = vi.fn();
    const handle = vi.fn(() => Promise.reject(error));
    const stop = new AbortController();
    onReconnect.mockImplementation(() => stop.abort());
    const following = followChanges(openPool(), { consumer: 'orders', handle, onReconnect, signal: stop.signal });
    await expect(following).rejects.toBe(error);
    expect([onReconnect.mock.calls, handle.mock.calls.length]).toEqual([[], 1]);
  });

  test('a program with one connection ends with an error when it is lost; a failed handler ends it too', async () => {
    await startConsumer(openPool(), 'orders', { after: 0 });
    const client = new pg.Client({ connectionString: database.url, application_name: 'test program' });
    client.on('error', () => undefined);
    await client.connect();
    const ended = followChanges(client, { consumer: 'orders', handle: async () => undefined }).catch((error) => error);
    await waitFor('the program to listen', async () => (await listening()).length > 0);
    await database.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'test program' and query = 'commit'",
    );
    expect(await ended).toBeInstanceOf(ConnectionLostError);
    await append(1);
    const failed = followChanges(openPool(), {
      consumer: 'orders',
      handle: () => Promise.reject(new Error('not mine')),
    });
    await expect(failed).rejects.toThrow('not mine');
    await expect(
      followChanges(openPool(), { consumer: 'nobody', handle: async () => undefined }),
    ).rejects.toMatchObject({
      code: '22023',
    });
  });
});

const listening = () =>
  database.query<{ pid: number }>(
    "select pid from pg_stat_activity where application_name = 'test program' and state = 'idle' and query = 'commit'",
  );
const typeOf = (value: unknown) => (value instanceof Date ? 'Date' : Array.isArray(value) ? 'list' : typeof value);

/** Returns the types that the generated file declares: of each column of each table and view. */
function readDeclaredTypes(): Map<keyof Rows, Map<string, string>> {
  const source = readFileSync(new URL('../../../src/client/generated/rows.ts', import.meta.url), 'utf8');
  const interfaces = new Map(
    [...source.matchAll(/^export interface (\w+) \{\n(.*?)^\}/gms)].map(([, name = '', body = '']) => [name, body]),
  );
  const declared = [...(interfaces.get('Rows') ?? '').matchAll(/^ {2}(\w+): (\w+);/gm)].map(
    ([, name = '', type = '']) => {
      const members = [...(interfaces.get(type) ?? '').matchAll(/^ {2}readonly (\w+): (.+?)(?: \| null)?;$/gm)];
      const types = members.map(([, column = '', text = '']) => [column, text.endsWith('[]') ? 'list' : text] as const);
      return [name as keyof Rows, new Map(types)] as const;
    },
  );
  expect(declared.length).toBeGreaterThan(20);
  return new Map(declared);
}
