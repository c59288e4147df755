import { afterEach, vi } from 'vitest';
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
import { makeConfig } from './puller.ts';
import type { SandboxControl } from './sandbox-control.ts';

const log = createLogger(process.env.TEST_LOG ?? 'silent');

/** A short timeout, so that a request without an answer takes a test little time. */
export const short = { HTTP_TIMEOUT_MS: '1500' };

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
  written_at: Date | null;
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
    pushRounds: async (times: number): Promise<void> => {
      for (let round = 0; round < times; round++) {
        await push(short);
        await hurry();
      }
    },
    /** Makes pushes use these connections, which are closed at the end of the test. */
    connect: (connections: PushConnections): void => {
      open = connections;
    },
    /** Closes the connections of earlier pushes. */
    close,
    rows,
    /** Reads the row with this id. */
    row: async (id: number): Promise<OutboxRow> => {
      const [row] = await rows('id = $1', [id]);
      if (row === undefined) throw new Error(`there is no row ${id}`);
      return row;
    },
    insert: async (
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
    },
  };
}
