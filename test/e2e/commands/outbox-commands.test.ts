import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);

const command = (...args: string[]) =>
  runCommand(args, workerEnv(database.url, sandbox, { LOG_LEVEL: 'silent' }));

test('an operator sees a dead row and its reason, and replaces its payload', async () => {
  const wrong = await outbox.insert(
    'order.create',
    'SO-1',
    orderPayload('SO-1', { locale: undefined }),
  );
  const behind = await outbox.insert('order.update', 'SO-1', { reference: 'new' });
  const pushed = await command('run', 'push-outbox');
  expect(pushed).toEqual({ code: 1, output: 'default push-outbox: dead 1' });

  const list = await command('outbox', 'list');
  expect(list.code).toBe(0);
  expect(list.output).toMatch(
    /1 {2}default {2}order\.create {2}SO-1 {7}dead .* the payload cannot be sent: locale: is missing/,
  );
  expect(list.output).toContain(
    `row ${wrong} (order.create) of the same reference comes first and is dead`,
  );
  const listed = JSON.parse((await command('outbox', 'list', '--status', 'dead', '--json')).output);
  expect(listed).toMatchObject([{ id: wrong, status: 'dead', attempts: 0 }]);

  const shown = await command('outbox', 'show', String(wrong));
  expect(shown.output).not.toMatch(/Anna|de Vries|Keizersgracht|1015CJ|anna@/);
  expect(shown.output).toContain('"countryCode": "NL"');
  expect(shown.output).toContain('Fix the cause. Then run one of: outbox retry <id>');
  expect((await command('outbox', 'show', String(wrong), '--reveal')).output).toContain(
    'Keizersgracht',
  );
  expect((await command('outbox', 'show', String(behind))).output).toContain(
    'It waits: row 1 (order.create)',
  );

  const replaced = await command(
    'outbox',
    'replace',
    String(wrong),
    JSON.stringify(orderPayload('SO-1')),
  );
  expect(replaced).toEqual({ code: 0, output: 'Row 1 has the new payload and is pending' });
  const done = await command('run', 'push-outbox', '--client', 'default');
  expect(done).toEqual({ code: 0, output: 'default push-outbox: done 2' });
  const status = await command('status');
  expect(status.output).toMatch(/outbox: dead .*\ndefault +0 +0 +0 +0 +2/);
});

test('a command changes many rows at once, but only those that were asked for', async () => {
  for (let index = 0; index < 4; index++)
    await outbox.insert(
      'order.create',
      `SO-${index}`,
      orderPayload(`SO-${index}`, { locale: undefined }),
    );
  await outbox.push();
  const fresh = await outbox.insert('order.create', 'SO-9', orderPayload('SO-9'));
  const asked = await command('outbox', 'cancel', '--kind', 'order.create');
  expect(asked).toEqual({
    code: 2,
    output: 'This would cancel 4 dead rows; add --yes to do it (outbox list shows them)',
  });
  const askedForOne = await command('outbox', 'cancel', '--reference', 'SO-0');
  expect(askedForOne.output).toBe(
    'This would cancel 1 dead row; add --yes to do it (outbox list shows them)',
  );
  expect((await command('outbox', 'retry')).code).toBe(2);
  expect((await command('outbox', 'list', '--status', 'lost')).code).toBe(2);
  expect(await command('outbox', 'cancel', '1', '99')).toEqual({
    code: 1,
    output:
      '1 row cancelled\nNothing was done for 99: there is no such row, or its status is not dead or pending; see: fulfilment-sync outbox show <id>',
  });
  const marked = await command('outbox', 'done', '2', '--result', '{"orderId": 7}');
  expect(marked).toEqual({ code: 0, output: '1 row marked as done' });
  expect(await outbox.row(2)).toMatchObject({ status: 'done', result: { orderId: 7 } });
  expect((await command('outbox', 'retry', '--error', 'LOCALE', '--yes')).output).toBe(
    '2 rows will be sent again',
  );
  const rows = await database.query('select id, status from fulfilment.outbox order by id');
  expect(rows.map(({ status }) => status)).toEqual([
    'cancelled',
    'done',
    'pending',
    'pending',
    'pending',
  ]);
  const [history] = await database.query(
    "select by from sync.outbox_attempts where step = 'retried' limit 1",
  );
  expect(history?.by).toMatch(/ \(outbox retry\)$/);
  expect(fresh).toBe(5);
});
