import { readFileSync } from 'node:fs';
import { streams } from '../../jobs/registry.ts';
import { prefix } from './load.ts';
import { workerRole } from './servers.ts';
import type { Stage } from './stage.ts';

const watch = readFileSync(new URL('./watch.sql', import.meta.url), 'utf8');
const tables = streams.flatMap(({ tables: { parent, children } }) => [parent, ...children]).map(({ name }) => name);
const parents = streams.map(({ name, tables: { parent } }) => ({ name, table: parent.name }));

/** Lets the campaign's database tell of every change, and refuse what it is told to. */
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

/** Cursors that stand on a row which is not here. To be true at any moment, whatever is being done. */
export async function cursorsAhead(stage: Stage): Promise<string[]> {
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

/** Orders inserted, and how they are at the service. */
export interface OrderCount {
  readonly lost: number;
  readonly doubled: number;
  readonly problems: string[];
}

/**
 * Compares what is done here with what the service holds: each order once, with its last change.
 * @param inserted orders that the ERP inserted
 */
export async function countOrders(stage: Stage, inserted: number): Promise<OrderCount> {
  const state = await stage.parts.sandbox.call<{
    clients: {
      client: string;
      orders: { resource: { attributes: { externalOrderNumber: string; reference: string | null } } }[];
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
  const rows = await stage.query<{ key: string; kind: string; status: string; last_error: string | null }>(
    `select client || ' ' || reference as key, kind, status, last_error from fulfilment.outbox`,
  );
  const created = rows.filter(({ kind }) => kind === 'order.create');
  const open = rows.filter(({ status }) => status !== 'done');
  const unchanged = rows.filter(
    ({ kind, status, key }) => kind === 'order.update' && status === 'done' && there.get(key)?.reference !== 'changed',
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
      ...open.map(({ key, kind, status, last_error }) => `${kind} ${key} is ${status}: ${last_error}`),
      ...unchanged.map(({ key }) => `order.update ${key} is done, and the service does not show it`),
      ...strangers.map((key) => `the service holds ${key}, which nobody ordered`),
    ],
  };
}

/** What the feed says and the tables do not, or the other way about. */
async function feedProblems(stage: Stage): Promise<string[]> {
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

/** What must be true of a database at which nobody works any more. */
export async function problemsAtRest(stage: Stage): Promise<string[]> {
  const left = await stage.query<{ what: string }>(`
    select 'a run is still running: ' || client || ' ' || job as what from sync.runs where status = 'running'
    union all select 'a lease is still held: ' || client || ' ' || name from sync.leases where expires_at is not null
    union all select 'a row is still being sent: ' || id from fulfilment.outbox where status = 'sending'
    union all select 'a connection is left: ' || application_name from pg_stat_activity
      where datname = current_database() and usename = '${workerRole}'`);
  return [...left.map(({ what }) => what), ...(await cursorsAhead(stage)), ...(await feedProblems(stage))];
}
