import { expect, test } from 'vitest';
import { setReadOnly } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { usePushes } from '../../helpers/pusher.ts';
import { insertHealth } from '../../helpers/service-health.ts';

const { database, sandbox, outbox } = usePushes();

const command = (...args: string[]) =>
  runCommand(args, workerEnv(database.url, sandbox, { LOG_LEVEL: 'silent' }));

test('an operator sees a dead row and its reason, and replaces its payload', async () => {
  const wrong = await outbox.insertOrder('SO-1', { locale: undefined });
  await outbox.insert('order.update', 'SO-1', { reference: 'new' });
  await outbox.push();

  const list = await command('outbox', 'list');
  expect(list.output).toMatch(/dead .* the payload cannot be sent: locale: is missing/);
  expect(list.output).toContain(
    `row ${wrong} (order.create) of the same reference comes first and is dead`,
  );
  const listed = await command('outbox', 'list', '--status', 'dead', '--json');
  expect(JSON.parse(listed.output)).toMatchObject([{ id: wrong, status: 'dead', attempts: 0 }]);
  const shown = await command('outbox', 'show', '1');
  expect(shown.output).not.toMatch(/Anna|de Vries|Keizersgracht|1015CJ|anna@/);
  expect(shown.output).toContain('"countryCode": "NL"');
  expect(shown.output).toContain('Fix the cause. Then retry the row');
  expect((await command('outbox', 'show', '1', '--reveal')).output).toContain('Keizersgracht');
  expect((await command('outbox', 'show', '2')).output).toContain('It waits: row 1 (order.create)');

  const replaced = await command('outbox', 'replace', '1', JSON.stringify(orderPayload('SO-1')));
  expect(replaced).toEqual({ code: 0, output: 'Row 1 has the new payload and is pending' });
  const done = await command('run', 'push-outbox', '--client', 'default');
  expect(done).toEqual({ code: 0, output: 'default push-outbox: done 2' });
});

test('a command changes many rows at once, but only those that were asked for', async () => {
  for (let index = 0; index < 4; index++)
    await outbox.insertOrder(`SO-${index}`, { locale: undefined });
  await outbox.push();
  await outbox.insertOrder('SO-9');

  const steps: readonly (readonly [words: string, code: number, output: string])[] = [
    ['cancel --kind order.create', 2, 'This would cancel 4 dead rows; add --yes to do it'],
    ['cancel --reference SO-0', 2, 'This would cancel 1 dead row; add --yes to do it'],
    ['retry', 2, ''],
    ['list --status lost', 2, ''],
    ['list --client nobody', 2, 'There is no client nobody; known are default'],
    ['cancel --client nobody --yes', 2, 'There is no client nobody; known are default'],
    ['check order.cancel README.md --client nobody', 2, 'There is no client nobody'],
    ['cancel 1 99', 1, '1 row cancelled\nNothing was done for 99: there is no such row'],
    ['done 2 --result {"orderId":7}', 0, '1 row marked as done'],
    ['retry --error LOCALE --yes', 0, '2 rows will be sent again'],
  ];
  for (const [words, code, output] of steps)
    expect([words, await command('outbox', ...words.split(' '))]).toEqual([
      words,
      { code, output: expect.stringContaining(output) },
    ]);

  expect(await outbox.row(2)).toMatchObject({ status: 'done', result: { orderId: 7 } });
  const statuses = (await outbox.rows()).map(({ status }) => status);
  expect(statuses).toEqual(['cancelled', 'done', 'pending', 'pending', 'pending']);
  const [history] = await database.query(
    "select by from sync.outbox_attempts where step = 'retried' limit 1",
  );
  expect(history?.by).toMatch(/ \(outbox retry\)$/);
});

test('a push for a client that is held says why nothing is sent, and until when', async () => {
  await outbox.insertOrder('SO-1');
  const held = { words: 'the password is refused', sendWindow: 0, untilInMs: 900_000 };
  await insertHealth(database, { code: 'credentials_refused', ...held });
  const words = /^default push-outbox: skipped \(the password is refused; tried again at 2\S+Z\)$/;
  expect(await command('run', 'push-outbox')).toEqual({
    code: 0,
    output: expect.stringMatching(words),
  });
  expect(await outbox.statuses()).toEqual(['pending']);
});

test('on a copy, commands say that nothing is sent, and that is no failure', async () => {
  const id = await outbox.insert('order.create', 'SO-1', {});
  await outbox.push();
  await command('database', 'accept', '--as', 'copy');

  expect(await command('outbox', 'retry', `${id}`)).toEqual({
    code: 0,
    output: '1 row pending again, but not sent: this database is a copy: nothing is sent from it',
  });
  expect(await command('run', 'push-outbox')).toEqual({
    code: 0,
    output: 'default push-outbox: skipped (this database is a copy: nothing is sent from it)',
  });
});

test('while the database takes no writes, status says so, and each command what to do', async () => {
  const id = await outbox.insertOrder('SO-1');
  await setReadOnly(database, 'on');
  const remedy = /takes no writes at present.*DATABASE_URL must lead to the primary/;
  const failing = [
    ...[['status'], ['migrate'], ['erase', 'SO-1', '--yes']],
    ...[
      ['outbox', 'cancel', `${id}`],
      ['outbox', 'replace', `${id}`, '{}', '--yes'],
    ],
  ];
  for (const words of failing)
    expect([words, await command(...words)]).toEqual([
      words,
      { code: 1, output: expect.stringMatching(remedy) },
    ]);
});
