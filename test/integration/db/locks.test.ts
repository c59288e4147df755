import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { tryRunExclusively } from '../../../src/db/transaction.ts';
import { acceptIdentity } from '../../../src/operate/sql/accept-identity.ts';
import { isAcceptedUntilCommit } from '../../../src/service/sql/clients.ts';
import { useDatabase } from '../../helpers/database.ts';
import { dailyJobs, done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const pull = usePuller(database, sandbox);
const { insertOrder, push, row } = usePusher(database, sandbox);

/**
 * Keys of advisory locks that earlier versions waited for. Any role that can connect may take them.
 */
const keys = [
  "hashtext('fulfilment.changes')",
  "hashtext('fulfilment-sync prune feed')",
  "hashtext('fulfilment-sync migrate')",
  "hashtext('fulfilment-sync rows'), hashtext('default shipments')",
  "hashtext('fulfilment-sync rows'), hashtext('default orders')",
  "hashtext('fulfilment-sync settings'), hashtext('default')",
  "hashtext('fulfilment-sync identity'), hashtext('default')",
  "hashtext('fulfilment-sync'), hashtext('schedulers')",
];

test('a role that may only connect cannot prevent any write', async () => {
  await sandbox.seed(3);
  const stranger = await database.open(1).startTransaction().execute();
  await sql`set local idle_in_transaction_session_timeout = 0`.execute(stranger);
  for (const key of keys)
    await sql`select pg_advisory_xact_lock(${sql.raw(key)})`.execute(stranger);
  for (const job of ['refresh-settings', 'pull-shipments', 'prune'] as const) done(await pull(job));
  const id = await insertOrder('SO-1');
  await push();
  expect((await row(id)).status).toBe('done');
  expect(await tryRunExclusively(database.db, 'schedulers', async () => {})).toBe(true);
  await stranger.rollback().execute();
});

test('an account is not accepted while a run with the former account begins', async () => {
  const former = { client: 'default', identity: 'former', baseUrl: 'https://former.test/' };
  await acceptIdentity(database.db, former, true, 'test');
  const beginning = await database.db.startTransaction().execute();
  expect(await isAcceptedUntilCommit(beginning, former)).toBe(true);
  const accepting = acceptIdentity(database.db, { ...former, identity: 'next' }, true, 'test');
  await database.waitForBlocked('the acceptance to wait');
  await beginning.commit().execute();
  expect(await accepting).toMatchObject({ accepted: true });
});

/** Tables that the writer edits: it may lock them in any mode. */
const editable = ['carrier_links', 'service_products', 'stock_watch'];

test('no work of a worker waits for a lock that a role of the ERP can take', async () => {
  await sandbox.seed(2);
  await insertOrder('SO-1');
  const relations = await database.query<{ name: string; any: boolean }>(`
    select c.oid::regclass::text as name,
      has_table_privilege('fulfilment_writer', c.oid, 'update, delete, truncate') as any
    from pg_class c
    where c.relnamespace = 'fulfilment'::regnamespace and c.relkind in ('r', 'p', 'v') order by 1`);
  expect(relations.filter(({ any }) => any).map(({ name }) => name)).toEqual(
    editable.map((name) => `fulfilment.${name}`),
  );
  const lockAs = async (role: string, work: () => Promise<void>) =>
    database
      .open(1)
      .transaction()
      .execute(async (trx) => {
        await sql`set local role ${sql.id(role)}`.execute(trx);
        for (const { name, any } of relations)
          if (any === (role === 'fulfilment_writer'))
            await sql`lock table ${sql.raw(name)} in ${sql.raw(any ? 'access exclusive' : 'access share')} mode`.execute(
              trx,
            );
        await work();
      });

  await lockAs('fulfilment_reader', () =>
    lockAs('fulfilment_writer', async () => {
      for (const job of dailyJobs) done(await pull(job));
      await push();
    }),
  );
  expect(await database.count(`fulfilment.outbox where status = 'done'`)).toBe(1);
});

test('views and functions read copies of the tables that the ERP edits', async () => {
  const rows = await database.query<{ reads: string }>(`
    select distinct r.ev_class::regclass::text as reads
    from pg_rewrite r
    join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
    where d.refobjid in ('fulfilment.carrier_links'::regclass, 'fulfilment.service_products'::regclass,
      'fulfilment.stock_watch'::regclass)
    union all
    select p.oid::regprocedure::text
    from pg_proc p
    where p.pronamespace in ('fulfilment'::regnamespace, 'sync'::regnamespace)
      and p.prosrc ~ 'fulfilment\\.(carrier_links|service_products|stock_watch)'`);
  expect(rows).toEqual([]);
});

test('the copies follow every change of the tables that the ERP edits', async () => {
  const areEqual = async (table: string) => {
    const [left, right] = [`table fulfilment.${table}`, `table sync.${table}`].map(
      (read) => `select to_jsonb(t) - 'created_at' as row from (${read}) t`,
    );
    return (
      (await database.query(`(${left} except ${right}) union all (${right} except ${left})`))
        .length === 0
    );
  };
  for (const statement of [
    `insert into fulfilment.service_products (sku, is_pattern) values ('A', false), ('B-%', true), ('C', false)`,
    `insert into fulfilment.service_products (sku) values ('A'), ('D') on conflict do nothing`,
    `update fulfilment.service_products set is_pattern = true where sku = 'A'`,
    `update fulfilment.service_products set sku = 'E' where sku = 'D'`,
    `insert into fulfilment.carrier_links (shipping_method, url) values ('X', 'https://x.test/{code}'), ('Y', 'https://y.test/')`,
    `update fulfilment.carrier_links set url = 'https://z.test/' where shipping_method = 'X'`,
    `delete from fulfilment.carrier_links where shipping_method = 'Y'`,
    `delete from fulfilment.service_products where sku = 'C'`,
    'truncate fulfilment.service_products, fulfilment.carrier_links',
  ]) {
    await database.query(statement);
    for (const table of ['service_products', 'carrier_links'])
      expect([statement, await areEqual(table)]).toEqual([statement, true]);
  }
});
