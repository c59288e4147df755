import { readFileSync } from 'node:fs';
import { streams } from '../../src/pull/streams/all-streams.ts';
import { prefix } from './load.ts';
import { workerRole } from './servers.ts';
import type { Stage } from './stage.ts';

const watch = readFileSync(new URL('./watch.sql', import.meta.url), 'utf8');
const tables = streams
  .flatMap(({ tables: { parent, children } }) => [parent, ...children])
  .map(({ name }) => name);
const parents = streams.map(({ name, tables: { parent } }) => ({ name, table: parent.name }));

/**
 * Adds triggers to the campaign's database that record every change and refuse writes on request.
 */
export async function watchTables(stage: Stage): Promise<void> {
  const triggers = tables.map(
    (table) => `create trigger chaos_see after insert or update or delete on fulfilment.${table}
      for each row execute function chaos.see();`,
  );
  const refusals = [
    ...tables.map((table) => `fulfilment.${table}`),
    'fulfilment.outbox',
    'sync.cursors',
    'sync.jobs',
  ].map(
    (table) => `create trigger chaos_refuse before insert or update or delete on ${table}
      for each statement execute function chaos.refuse();`,
  );
  await stage.query([watch, ...triggers, ...refusals].join('\n'));
}

/**
 * Finds cursors whose last row is neither stored nor in quarantine. There must never be one, not
 * even during a fault.
 */
export async function findCursorsAhead(stage: Stage): Promise<string[]> {
  const missing = parents.map(
    ({ name, table }) => `
      select c.client, c.stream, c.pass, c.last_id from sync.cursors c
      where c.stream = '${name}' and c.last_id is not null
        and not exists (select from fulfilment.${table} t where t.client = c.client and t.id = c.last_id)
        and not exists (select from sync.quarantine q where q.client = c.client and q.stream = c.stream and q.resource_id = c.last_id)`,
  );
  const rows = await stage.query<Record<string, unknown>>(missing.join(' union all '));
  return rows.map((row) => `a cursor is ahead of its rows: ${JSON.stringify(row)}`);
}

/**
 * Compares the outbox with the orders at the service. Each order must be there once, with its last
 * change.
 * @param inserted number of orders that the ERP inserted
 */
export async function countOrders(stage: Stage, inserted: number) {
  const state = await stage.parts.sandbox.call<{
    clients: {
      client: string;
      orders: {
        resource: { attributes: { externalOrderNumber: string; reference: string | null } };
      }[];
    }[];
  }>('GET', '/_sandbox/state');
  const there = new Map<string, { times: number; reference: string | null }>();
  for (const { client, orders } of state.clients)
    for (const { resource } of orders) {
      const { externalOrderNumber, reference } = resource.attributes;
      const key = `${client} ${externalOrderNumber}`;
      if (externalOrderNumber.startsWith(prefix))
        there.set(key, { times: (there.get(key)?.times ?? 0) + 1, reference });
    }
  const rows = await stage.query<{
    key: string;
    kind: string;
    status: string;
    last_error: string | null;
  }>(`select client || ' ' || reference as key, kind, status, last_error from fulfilment.outbox`);
  const created = rows.filter(({ kind }) => kind === 'order.create');
  const open = rows.filter(({ status }) => status !== 'done');
  const unchanged = rows.filter(
    ({ kind, status, key }) =>
      kind === 'order.update' && status === 'done' && there.get(key)?.reference !== 'changed',
  );
  const strangers = [...there.keys()].filter((key) => !created.some((row) => row.key === key));
  const absent = created.filter(({ key }) => !there.has(key));
  const doubled = [...there].filter(([, { times }]) => times > 1);
  const vanished = inserted - created.length;
  return {
    lost: absent.length + unchanged.length + vanished,
    doubled: doubled.reduce((sum, [, { times }]) => sum + times - 1, 0),
    problems: [
      ...(vanished === 0 ? [] : [`${vanished} rows of the outbox are gone`]),
      ...absent.map(({ key, status }) => `${key} is ${status}, and not at the service`),
      ...doubled.map(([key, { times }]) => `${key} is at the service ${times} times`),
      ...open.map(
        ({ key, kind, status, last_error }) => `${kind} ${key} is ${status}: ${last_error}`,
      ),
      ...unchanged.map(
        ({ key }) => `order.update ${key} is done, and the service does not show it`,
      ),
      ...strangers.map((key) => `the service holds ${key}, which nobody ordered`),
    ],
  };
}

/** Finds differences between the feed and the recorded changes of the tables. */
async function findFeedProblems(stage: Stage): Promise<string[]> {
  const rows = await stage.query<Record<string, unknown>>(
    `with told as (select client, entity, id, key, operation, changed_at as at from fulfilment.changes where entity = any($1)),
       seen as (select distinct client, entity, id, key, operation, at from chaos.seen)
     select 'the feed lacks' as what, x.* from (select * from seen except select * from told) x
     union all select 'the feed makes up', x.* from (select * from told except select * from seen) x
     union all select 'the feed repeats', x.* from (select * from told group by 1, 2, 3, 4, 5, 6 having count(*) > 1) x
     limit 10`,
    [tables],
  );
  return rows.map(({ what, ...row }) => `${what} ${JSON.stringify(row)}`);
}

/**
 * Checks the invariants of a database whose workers have all stopped. Returns a text for each
 * problem.
 */
export async function findProblemsAtRest(stage: Stage): Promise<string[]> {
  const left = await stage.query<{ what: string }>(`
    select 'a run is still running: ' || client || ' ' || job as what from sync.runs where status = 'running'
    union all select 'a lease is still held: ' || client || ' ' || name from sync.leases where expires_at is not null
    union all select 'a row is still being sent: ' || id from fulfilment.outbox where status = 'sending'
    union all select 'a connection is left: ' || application_name from pg_stat_activity
      where datname = current_database() and usename = '${workerRole}'`);
  return [
    ...left.map(({ what }) => what),
    ...(await findCursorsAhead(stage)),
    ...(await findFeedProblems(stage)),
  ];
}
