import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

test('every table with columns, the queue too, has a key by which replicas find its rows', async () => {
  const tables = await database.query<{ table: string; isFindable: boolean }>(`
    select c.oid::regclass::text as table,
      case c.relreplident
        when 'd' then exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and i.indimmediate)
        when 'i' then exists (select from pg_index i where i.indrelid = c.oid and i.indisreplident)
        else c.relreplident = 'f' end as "isFindable"
    from pg_class c
    where c.relkind in ('r', 'p') and c.relnamespace::regnamespace::text in ('fulfilment', 'sync', 'bullmq')
      and exists (select from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)`);
  expect(tables.length).toBeGreaterThan(50);
  expect(tables.filter(({ isFindable }) => !isFindable)).toEqual([]);
});
