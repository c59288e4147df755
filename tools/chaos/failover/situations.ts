import { waitFor } from '../../../test/helpers/wait.ts';
import type { PostgresProcess } from './postgres-process.ts';
import type { Outcome, Scene } from './scene.ts';

/** A failure of a database with a standby, and what is done about it. */
export interface Situation {
  readonly name: string;
  readonly about: string;
  /** Who must act until orders are sent again. */
  readonly acts: 'nobody' | 'operator';
  /** Settings of the primary. */
  readonly settings?: Readonly<Record<string, string>>;
  readonly play: (scene: Scene) => Promise<Outcome>;
}

const accept = (as: string) => ['database', 'accept', '--as', as];

/** The primary is killed and the standby promoted, while the worker lives. */
async function killPrimary(scene: Scene): Promise<Outcome> {
  await scene.awaitOrders(20);
  const fromMs = performance.now();
  await scene.primary.stop('SIGQUIT');
  await scene.takeOver();
  return scene.settle(await scene.awaitPushes(fromMs));
}

/** The primary and all workers are lost together. */
async function killBoth(
  scene: Scene,
  env: Record<string, string>,
  act: () => Promise<void>,
): Promise<Outcome> {
  const worker = await scene.startWorker(env);
  await scene.awaitOrders(20);
  const fromMs = performance.now();
  worker.kill('SIGKILL');
  await scene.primary.stop('SIGQUIT');
  await scene.takeOver();
  await scene.startWorker(env);
  await act();
  return scene.settle(await scene.awaitPushes(fromMs));
}

/** Stops the primary, copies its data, and starts both. The copy has the rows that wait. */
async function copyPrimary(scene: Scene): Promise<PostgresProcess> {
  await scene.awaitOrders(20);
  await scene.primary.query(
    "insert into sync.pauses (client, job, by) values ('', 'push-outbox', 'chaos')",
  );
  await waitFor('rows that wait', async () => {
    const rows = await scene.primary.query(
      "select from fulfilment.outbox where status = 'pending' having count(*) > 5",
    );
    return rows.length > 0;
  });
  await scene.primary.stop('SIGINT');
  const copy = scene.add(scene.primary.copy(scene.root));
  await scene.primary.start();
  await copy.start();
  for (const server of [scene.primary, copy]) await server.query('delete from sync.pauses');
  return copy;
}

/** Replaces the primary by a new server, to which its rows were replicated logically. */
async function moveLogically(scene: Scene): Promise<Outcome> {
  const { primary } = scene;
  const worker = await scene.startWorker();
  await scene.awaitOrders(20);
  const target = scene.add(scene.primary.createAnother(scene.root));
  await target.start();
  await scene.command(['migrate'], target.url);
  await target.query(`do $$ begin execute (
    select 'truncate ' || string_agg(format('%I.%I', schemaname, tablename), ', ')
    from pg_tables where schemaname in ('fulfilment', 'sync', 'bullmq')); end $$`);
  await primary.query('create publication moving for all tables');
  await target.query(`create subscription moving connection '${primary.url}' publication moving`);
  await waitFor('the first copy', async () => {
    const left = await target.query("select from pg_subscription_rel where srsubstate <> 'r'");
    return left.length === 0;
  });

  const fromMs = performance.now();
  worker.kill('SIGTERM');
  await worker.ended;
  await scene.holdOrders();
  await waitFor('all changes', async () => {
    const caughtUp = await primary.query(
      `select from pg_stat_replication
       where application_name = 'moving' and replay_lsn = pg_current_wal_lsn()`,
    );
    return caughtUp.length > 0;
  });
  await target.query('drop subscription moving');
  scene.replacePrimary(target);
  await scene.command(accept('moved'));
  scene.resumeOrders();
  await scene.startWorker();
  return scene.settle(await scene.awaitPushes(fromMs));
}

export const situations: readonly Situation[] = [
  {
    name: 'asynchronous-kill',
    about: 'the primary crashes, its asynchronous standby is promoted',
    acts: 'nobody',
    play: async (scene) => {
      await scene.startWorker();
      return killPrimary(scene);
    },
  },
  {
    name: 'synchronous-kill',
    about: 'the same with a synchronous standby',
    acts: 'nobody',
    settings: { synchronous_standby_names: '*' },
    play: async (scene) => {
      await scene.startWorker();
      return killPrimary(scene);
    },
  },
  {
    name: 'switchover',
    about: 'the primary is stopped in order, then the standby promoted',
    acts: 'nobody',
    play: async (scene) => {
      await scene.startWorker();
      await scene.awaitOrders(20);
      const fromMs = performance.now();
      await scene.primary.stop('SIGINT');
      await scene.takeOver();
      return scene.settle(await scene.awaitPushes(fromMs));
    },
  },
  {
    name: 'both-lost-ask',
    about: 'primary and worker are lost together; an operator accepts the standby',
    acts: 'operator',
    play: (scene) =>
      killBoth(scene, {}, async () => {
        await scene.awaitHold();
        await scene.command(accept('restored'));
      }),
  },
  {
    name: 'both-lost-fenced',
    about: 'the same with DATABASE_FAILOVER=fenced',
    acts: 'nobody',
    play: (scene) => killBoth(scene, { DATABASE_FAILOVER: 'fenced' }, async () => undefined),
  },
  {
    name: 'lossy-promotion',
    about: 'a standby that has missed some seconds is promoted; an operator accepts it',
    acts: 'operator',
    play: async (scene) => {
      await scene.startWorker();
      await scene.awaitOrders(20);
      await scene.standby.stop('SIGINT');
      await scene.awaitOrders(20);
      const fromMs = performance.now();
      await scene.primary.stop('SIGQUIT');
      await scene.standby.start();
      await scene.takeOver();
      await scene.awaitHold();
      await scene.command(accept('restored'));
      return scene.settle(await scene.awaitPushes(fromMs));
    },
  },
  {
    name: 'split-brain',
    about: 'the standby is promoted while the primary lives, with a worker at each',
    acts: 'nobody',
    play: async (scene) => {
      await scene.startWorker();
      await scene.awaitOrders(20);
      const fromMs = performance.now();
      await scene.standby.promote();
      await scene.startWorker({}, scene.standby.url);
      const pushesAfterMs = await scene.awaitPushes(fromMs);
      await scene.awaitOrders(20);
      return scene.settle(pushesAfterMs);
    },
  },
  {
    name: 'copy',
    about: 'a copy of the data folder is started beside the original, with a worker at each',
    acts: 'nobody',
    play: async (scene) => {
      await scene.startWorker();
      const fromMs = performance.now();
      const copy = await copyPrimary(scene);
      await scene.startWorker({}, copy.url);
      const pushesAfterMs = await scene.awaitPushes(fromMs);
      await scene.awaitOrders(20);
      return scene.settle(pushesAfterMs);
    },
  },
  {
    name: 'accepted-copy',
    about: 'the same, and an operator accepts the copy as restored: both send',
    acts: 'operator',
    play: async (scene) => {
      await scene.startWorker();
      const copy = await copyPrimary(scene);
      await scene.awaitOrders(20);
      const fromMs = performance.now();
      await scene.command(accept('restored'), copy.url);
      await scene.startWorker({}, copy.url);
      await waitFor('the copy to settle its rows', async () => {
        const open = await copy.query(
          "select from fulfilment.outbox where status in ('pending', 'sending', 'unknown')",
        );
        return open.length === 0;
      });
      return scene.settle(await scene.awaitPushes(fromMs));
    },
  },
  {
    name: 'silent-connections',
    about: 'all open connections go silent, new ones work',
    acts: 'nobody',
    play: async (scene) => {
      await scene.startWorker();
      await scene.awaitOrders(20);
      const fromMs = performance.now();
      scene.address.set({ kind: 'half-open' });
      scene.address.set({ kind: 'fair' });
      scene.address.forgetLost();
      return scene.settle(await scene.awaitPushes(fromMs));
    },
  },
  {
    name: 'logical-copy',
    about: 'the rows are replicated logically to a new server; an operator accepts it as moved',
    acts: 'operator',
    play: moveLogically,
  },
];
