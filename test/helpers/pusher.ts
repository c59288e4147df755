import { afterEach, expect, vi } from 'vitest';
import {
  openPushConnections,
  openPusher,
  type PushConnections,
} from '../../src/cli/worker/open-pusher.ts';
import { createLogger } from '../../src/operate/logging/create-logger.ts';
import { FeedNumbering } from '../../src/push/feed-numbering.ts';
import { toClientIdentity } from '../../src/schedule/runs.ts';
import { openWarehouses } from '../../src/service/open-warehouses.ts';
import { registerClients } from '../../src/service/sql/clients.ts';
import type { TestDatabase } from './database.ts';
import { orderPayload } from './order-payload.ts';
import { makeConfig, usePulls } from './puller.ts';
import { quiet } from './sandbox.ts';
import type { FaultRule, SandboxControl } from './sandbox-control.ts';

const log = createLogger(process.env.TEST_LOG ?? 'silent');

/** A short timeout, so that a request without an answer takes a test little time. */
export const short = { HTTP_TIMEOUT_MS: '5000' };

/** Returns a fault that strikes the next request of an operation. */
export const once = (operation: string, effect: FaultRule['effect']): FaultRule => ({
  operation,
  count: 1,
  effect,
});

/** Effects of faults: the request is carried out, or not, and the connection breaks. */
export const lostAnswer = { reset: true, afterEffect: true } as const;
export const lostRequest = { reset: true } as const;

/** Gives every test of the file a database, a sandbox without orders, and pushes between them. */
export function usePushes() {
  const { database, sandbox, pull, work } = usePulls(quiet);
  const outbox = usePusher(database, sandbox);

  /** Lets the orders be shipped. Returns the payload that announces the return of a piece. */
  const shipOrders = async () => {
    await sandbox.advance(2 * 86_400);
    await pull('pull-shipments');
    const [line] = await database.query<{ id: number; shipmentId: number }>(
      'select id, shipment_id as "shipmentId" from fulfilment.shipment_items order by id',
    );
    if (line === undefined) throw new Error('nothing was shipped');

    const { id: shipmentItemId, shipmentId } = line;
    return { shipmentId, items: [{ shipmentItemId, quantity: 1, reason: 'DAMAGED' }] };
  };
  return { database, sandbox, outbox, pull, work, shipOrders };
}

/** A row of the outbox, as far as tests read it. */
export interface OutboxRow {
  id: number;
  kind: string;
  reference: string;
  status: string;
  attempts: number;
  last_error: string | null;
  result: Record<string, unknown> | null;
  next_attempt_at: Date | null;
  sent_at: Date | null;
  written_at: Date | null;
  absences: number;
}

/**
 * Inserts rows as an ERP does, pushes in this process as `run push-outbox` does, and reads the
 * rows.
 */
export function usePusher(
  database: Pick<TestDatabase, 'url' | 'db' | 'query'>,
  sandbox: SandboxControl,
) {
  const rows = (where = 'true', values: unknown[] = []) =>
    database.query<OutboxRow & Record<string, unknown>>(
      `select * from fulfilment.outbox where ${where} order by id`,
      values,
    );
  // All pushes of a test share their connections, because opening them takes longer than most
  // pushes.
  let open: PushConnections | null = null;
  const close = async () => {
    const opened = open;
    open = null;
    await Promise.all([opened?.main.close(), opened?.claims.close()]);
  };
  afterEach(close);
  /** Opens a pusher. Without connections it opens its own. */
  const openOne = async (env: Record<string, string>, connections?: PushConnections) => {
    const config = makeConfig(database, sandbox, env);
    await registerClients(database.db, config.clients.map(toClientIdentity));
    const { warehouses, close: closeWarehouses } = openWarehouses(config);
    const feed = new FeedNumbering(database.db, () => undefined);
    const setup = {
      config,
      databaseUrl: database.url,
      warehouses,
      worker: 'test',
      log,
      numberFeed: feed.number,
    };
    return { ...openPusher(setup, connections), closeWarehouses, feed };
  };
  /**
   * Pushes until nothing is due. Every random delay has half of its maximum, so that no failed row
   * is due again by chance.
   */
  const push = async (env: Record<string, string> = {}): Promise<void> => {
    const random = vi.spyOn(Math, 'random').mockReturnValue(0.5);
    open ??= openPushConnections(database.url, log);
    const { pusher, closeWarehouses } = await openOne(env, open);
    try {
      await pusher.drain();
    } finally {
      random.mockRestore();
      await closeWarehouses();
    }
  };
  /** Makes all waiting rows due now, as if their time had passed. */
  const hurry = async (): Promise<void> => {
    await database.query(
      "update fulfilment.outbox set written_at = written_at - interval '1 hour'",
    );
    await database.query(
      "update sync.turns set taken_at = taken_at - interval '1 minute', next_at = next_at - interval '1 minute' where name = 'service-lists'",
    );
    await database.query(`
      update fulfilment.outbox set next_attempt_at = now(), absent_at = absent_at - interval '1 hour'
      where status in ('pending', 'unknown') and next_attempt_at is not null`);
  };
  /**
   * Makes all look-ups due, as if the last attempts had been this many seconds ago, and the last
   * look-ups a minute.
   */
  const ageTo = async (seconds: number): Promise<void> => {
    await database.query(
      `update fulfilment.outbox set next_attempt_at = now(), absent_at = absent_at - interval '1 minute',
        written_at = now() - make_interval(secs => $1)
      where status = 'unknown' and next_attempt_at is not null`,
      [seconds],
    );
  };
  /** Reads the row with this id. */
  const readRow = async (id: number): Promise<OutboxRow> => {
    const [row] = await rows('id = $1', [id]);
    if (row === undefined) throw new Error(`there is no row ${id}`);
    return row;
  };
  const insert = async (
    kind: string,
    reference: string,
    payload: unknown = {},
    client = 'default',
  ): Promise<number> => {
    const [row] = await database.query<{ id: number }>(
      'insert into fulfilment.outbox (client, kind, reference, payload) values ($1, $2, $3, $4) returning id',
      [client, kind, reference, typeof payload === 'string' ? payload : JSON.stringify(payload)],
    );
    return row?.id ?? 0;
  };
  /** Reads why an open row waits, as an ERP does. */
  const readBecause = async (id: number): Promise<string | undefined> => {
    const sql = 'select because from fulfilment.outbox_open where id = $1';
    return (await database.query<{ because: string }>(sql, [id]))[0]?.because;
  };
  /** Inserts an order.create with one line, with changes of its payload. */
  const insertOrder = (number: string, changes: Record<string, unknown> = {}) =>
    insert('order.create', number, orderPayload(number, changes));
  return {
    push,
    ageTo,
    /** Starts to push as a worker does, until it is stopped. */
    start: async (env: Record<string, string> = {}) => {
      const { pusher, close: closeOne, closeWarehouses, feed } = await openOne(env);
      feed.start();
      pusher.start();
      const stop = async (withinMs: number) => {
        await pusher.stop(withinMs);
        await feed.close();
        await Promise.all([closeOne(), closeWarehouses()]);
      };
      return { pusher, stop };
    },
    hurry,
    /** Pushes several times, and makes all waiting rows and look-ups due after each push. */
    pushRounds: async (times: number, env: Record<string, string> = {}): Promise<void> => {
      for (let round = 0; round < times; round++) {
        await push({ ...short, ...env });
        await hurry();
      }
    },
    /** Makes pushes use these connections, which are closed at the end of the test. */
    connect: (connections: PushConnections): void => {
      open = connections;
    },
    /** Makes a row due to be sent again, as after two look-ups that did not find it. */
    believeAbsent: (id: number) =>
      database.query(
        `update fulfilment.outbox set status = 'pending', next_attempt_at = now(), absences = 2
         where id = $1`,
        [id],
      ),
    /** Closes the connections of earlier pushes. */
    close,
    rows,
    row: readRow,
    /** Expects of a row that it has these values. */
    expectRow: async (id: number, expected: object) =>
      expect(await readRow(id)).toMatchObject(expected),
    insert,
    insertOrder,
    /** Inserts a row, pushes, and reads the row. */
    send: async (kind: string, reference: string, payload: unknown = {}, env = {}) => {
      const id = await insert(kind, reference, payload);
      await push(env);
      return readRow(id);
    },
    /** Inserts an order.create with one line, pushes, and reads the row. */
    sendOrder: async (number: string, changes: Record<string, unknown> = {}, env = {}) => {
      const id = await insertOrder(number, changes);
      await push(env);
      return readRow(id);
    },
    /** Replaces the payload of a row, as an ERP does. */
    replace: (id: number, payload: unknown) =>
      database.query('select fulfilment.outbox_replace($1, $2)', [id, JSON.stringify(payload)]),
    /** Cancels a row, as an ERP does. */
    cancel: (id: number) => database.query('select fulfilment.outbox_cancel($1)', [id]),
    statuses: async (): Promise<string[]> => (await rows()).map(({ status }) => status),
    readBecause,
  };
}
