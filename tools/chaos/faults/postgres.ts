import { setTimeout as wait } from 'node:timers/promises';
import { workerRole } from '../servers.ts';
import type { Fault, Stage } from '../stage.ts';

const endOthers = `select pg_terminate_backend(pid) from pg_stat_activity
  where datname = current_database() and pid <> pg_backend_pid()`;

export const postgresFaults: readonly Fault[] = [
  {
    name: 'postgres-crash',
    about: 'immediate stop, and started again within 2 s',
    strike: ({ random, parts }) => parts.servers.postgres.crash(random.between(0, 2_000)),
  },
  {
    name: 'postgres-connections',
    about: 'the role may have six connections, and the ones there are end',
    strike: async (stage) => {
      await stage.retryQuery(`alter role ${workerRole} connection limit 6`);
      await stage.retryQuery(endOthers);
      await wait(stage.random.between(1_000, 4_000));
      await stage.retryQuery(`alter role ${workerRole} connection limit -1`);
    },
  },
  {
    name: 'postgres-read-only',
    about: 'every new session is read-only, as after a failover; sessions of that time stay so',
    strike: async (stage) => {
      const { name } = stage.parts.database;
      await stage.retryQuery(`alter database ${name} set default_transaction_read_only = on`);
      await stage.retryQuery(endOthers);
      await wait(stage.random.between(1_000, 4_000));
      await stage.retryQuery(
        `begin read write; alter database ${name} reset default_transaction_read_only; commit`,
      );
    },
  },
  {
    name: 'postgres-disk-full',
    about: 'no room left on the disk of its tables',
    onSmallDisk: true,
    strike: async (stage) => {
      const { servers } = stage.parts;
      if (!servers.hasSmallDisk) return refuseWrites(stage, ['53100']);
      servers.fillDisk();
      await wait(stage.random.between(1_000, 4_000));
      servers.freeDisk();
    },
  },
  {
    name: 'postgres-deadlock',
    about: 'a session of someone else locks rows in the order that deadlocks',
    strike: causeDeadlocks,
  },
  {
    name: 'postgres-serialization',
    about: 'a third of all writes fail with a serialization failure, a deadlock or a lock timeout',
    strike: (stage) => refuseWrites(stage, ['40001', '40P01', '55P03']),
  },
];

/** Makes 30 % of the statements that write fail with one of these SQLSTATEs, for 1 to 4 seconds. */
async function refuseWrites(stage: Stage, codes: readonly string[]): Promise<void> {
  const { random } = stage;
  await stage.retryQuery('update chaos.refusal set code = $1, share = 0.3', [random.pick(codes)]);
  await wait(random.between(1_000, 4_000));
  await stage.retryQuery('update chaos.refusal set share = 0');
}

/**
 * Locks child rows before their parents, and large ids before small ones: the order that deadlocks
 * with our writes.
 */
async function causeDeadlocks(stage: Stage): Promise<void> {
  const endMs = performance.now() + stage.random.between(2_000, 5_000);
  const upwards = (table: string) =>
    `perform 1 from fulfilment.${table} order by id limit 50 for update;`;
  const downwards = (table: string) =>
    `perform 1 from fulfilment.${table} order by id desc limit 50 for update;`;
  while (performance.now() < endMs) {
    const seconds = stage.random.between(10, 200) / 1_000;
    const first = ['shipment_items', 'shipments', 'orders', 'outbox'].map(downwards);
    const then = ['order_items', 'shipments', 'orders'].map(upwards);
    // If Postgres chooses this session as the victim, the statement is retried.
    await stage.retryQuery(
      `do $$ begin ${first.join(' ')} perform pg_sleep(${seconds}); ${then.join(' ')} end $$`,
    );
  }
}
