import { expect, test } from 'vitest';
import { useAdmin } from '../../../helpers/admin.ts';
import { useDatabase } from '../../../helpers/database.ts';

const database = useDatabase();
const admin = useAdmin(database);

test('a changed database is accepted on its page, once, by a person who ticked the box', async () => {
  const { visitor } = await admin();
  const read = async () => (await visitor.get('/database')).text();
  const accept = (fields: Record<string, string>) =>
    visitor.post('/database/accept', fields, '/database');
  await database.query(`
    insert into sync.push_database (mark, accepted_as, accepted_by)
    values ('1/2/3/4', 'first', 'w')`);

  const page = await read();
  expect(page).toContain('it is on another server');
  expect(page).not.toContain('Planned');
  for (const as of ['moved', 'restored', 'copy']) expect(page).toContain(`value="${as}"`);
  expect((await accept({ as: 'copy' })).status).toBe(400);
  expect((await accept({ as: 'copy', sure: 'on' })).status).toBe(303);

  expect(await read()).toContain('there is nothing to accept');
  expect(await database.query('select accepted_as, accepted_by from sync.push_database')).toEqual([
    { accepted_as: 'copy', accepted_by: 'page 127.0.0.1' },
  ]);
  expect(await database.query('select action from sync.audit')).toEqual([
    { action: 'database_accepted' },
  ]);
  const again = await visitor.post('/database/accept', { as: 'moved', sure: 'on' }, '/orders');
  expect(again.status).toBe(409);
});
