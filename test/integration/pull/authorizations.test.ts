import { expect, test } from 'vitest';
import { findOpenAuthorizations } from '../../../src/pull/sql/authorization-rows.ts';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

test('an open return authorization is read daily for 180 days, then once a week without end', async () => {
  await database.query(`
    insert into fulfilment.return_merchandise_authorizations (client, id, raw, read_no, first_seen_at)
    select 'default', id, '{}', 1, now() - make_interval(days => case when id <= 7 then 900 else 100 end)
    from generate_series(1, 9) as id`);
  await database.query(`
    insert into fulfilment.return_merchandise_authorization_items (client, id, raw, return_merchandise_authorization_id)
    select 'default', id, '{}', id from generate_series(1, 9) as id`);
  const [today] = await database.query<{ day: number }>(
    'select extract(dow from now())::int as day',
  );
  const weekly = today?.day === 0 ? 7 : today?.day;
  expect(await findOpenAuthorizations(database.db, 'default')).toEqual([weekly, 8, 9]);
});
