import { expect, test } from 'vitest';
import { readSchemaDrift } from '../../../src/db/drift.ts';
import { migrate } from '../../../src/db/migrate.ts';
import { readKnownMigrations } from '../../../src/db/migration-files.ts';
import { checkDatabase } from '../../../src/operate/doctor/checks.ts';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

const findSchemaCheck = async () =>
  (await checkDatabase(database.db)).find(({ check }) => check === 'schema');

test.each<[string, unknown]>([
  ['drop index sync.runs_by_end', 'index sync.runs_by_end'],
  [
    'alter table fulfilment.outbox disable trigger outbox_notify',
    'trigger fulfilment.outbox outbox_notify',
  ],
  [
    'alter table sync.runs drop constraint runs_trigger_check',
    'constraint sync.runs runs_trigger_check',
  ],
  ['alter table sync.runs alter worker drop not null', 'column sync.runs.worker text not null'],
  [
    `create or replace function sync.notify_outbox() returns trigger language plpgsql as
      $$ begin return null; end $$`,
    expect.stringMatching(/^function sync\.notify_outbox\(\), body [0-9a-f]{8}$/),
  ],
])('after %s, doctor names what is missing and what to do', async (statement, part) => {
  expect(await findSchemaCheck()).toMatchObject({ state: 'ok' });

  await database.query(statement);

  expect((await readSchemaDrift(database.db)).missing).toContainEqual(part);
  expect(await findSchemaCheck()).toMatchObject({
    state: 'fail',
    found: expect.stringMatching(/^missing: /),
    remedy: expect.stringContaining('restore these'),
  });
});

test('doctor warns of a table of others, but not of an index or a trigger', async () => {
  await database.query(
    `create index by_mine on fulfilment.orders (email, id);
     create trigger mine before insert on fulfilment.orders
       for each row execute function suppress_redundant_updates_trigger()`,
  );
  expect(await findSchemaCheck()).toMatchObject({ state: 'ok' });

  await database.query('create table fulfilment.mine (note text)');

  expect(await findSchemaCheck()).toMatchObject({
    state: 'warn',
    found: 'not part of this version: column fulfilment.mine.note text',
  });
});

test('a later migration is expected from then on, and hides no damage from before it', async () => {
  await database.query(`drop index sync.runs_by_end; create table fulfilment.mine (note text)`);
  const later = [
    'create table sync.later (id bigint not null); drop index sync.runs_running;',
    '-- online\ndrop index concurrently if exists sync.runs_by_job;\n' +
      'create index concurrently runs_by_worker on sync.runs (worker);\n',
  ].map((text, index) => ({
    name: `999${index}_later`,
    text,
    online: text.startsWith('-- online'),
  }));

  await migrate(database.db, '9.9.9', { files: [...(await readKnownMigrations()), ...later] });

  expect(await readSchemaDrift(database.db)).toEqual({
    missing: ['index sync.runs_by_end'],
    unexpected: ['column fulfilment.mine.note text'],
  });

  await database.query('drop index sync.runs_by_worker');

  expect((await readSchemaDrift(database.db)).missing).toEqual([
    'index sync.runs_by_end',
    'index sync.runs_by_worker',
  ]);
});
