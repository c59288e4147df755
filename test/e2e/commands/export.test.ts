import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, describe, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const folder = mkdtempSync(join(tmpdir(), 'export-'));
afterAll(() => rmSync(folder, { recursive: true }));
const program = process.env.TEST_PROGRAM ?? '';

function start(args: readonly string[], url = database.url) {
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn(process.execPath, [program, 'export', ...args], { env: { PATH, HOME, DATABASE_URL: url } });
  const ended = once(child, 'close').then(([code]) => code as number);
  return { child, ended, err: text(child.stderr) };
}
/** Runs `export` as a process. Returns what it wrote. */
async function run(args: readonly string[], url?: string) {
  const { child, ended, err } = start(args, url);
  const [out, errors, code] = await Promise.all([text(child.stdout), err, ended]);
  return { code, out, err: errors.trim() };
}

const nasty = 'a "b", c;\r\nd\té€ =1+1 \\n';
/** Stores shipments, of which every value is hard to write in some format. */
const store = (count: number, client = 'default') =>
  database.query(
    `with s as (
       insert into fulfilment.shipments (client, id, status, shipped_on, external_order_number, raw, read_no)
       select $1, n, $2, '2026-05-04 08:00:00.123456+00', null, '{"price": 12345678901234567890.10}', 1
       from generate_series(1, $3) n returning client, id)
     insert into fulfilment.shipment_items (client, id, shipment_id, sku, quantity, serial_numbers, raw)
     select client, id, id, '', 1, array['x,1', 'y"'], '{}' from s`,
    [client, nasty, count],
  );

describe('export', () => {
  test('writes CSV as RFC 4180 asks: header, CRLF, quotes doubled, an empty text other than null', async () => {
    await store(1);
    const columns = 'id,status,shipped_on,external_order_number,raw';
    const { code, out, err } = await run(['shipments', '--columns', columns]);
    expect({ code, out }).toEqual({
      code: 0,
      out: `${columns}\r\n1,"${nasty.replaceAll('"', '""')}",2026-05-04T08:00:00.123456+00:00,,"{""price"": 12345678901234567890.10}"\r\n`,
    });
    expect(err).toBe('1 rows of shipments.');
    const items = await run(['fulfilment.shipment_items', '--columns', 'sku, serial_numbers']);
    expect(items.out).toBe('sku,serial_numbers\r\n"","[""x,1"",""y\\""""]"\r\n');
    // Postgres reads the same values back.
    await database.query('create table public.back as select * from fulfilment.shipments with no data');
    const whole = join(folder, 'whole.csv');
    expect((await run(['shipments', '--output', whole])).code).toBe(0);
    const [copied] = await database.query(
      `select (select count(*)::int from (table public.back except table fulfilment.shipments) d) as different`,
    );
    expect(copied).toEqual({ different: 0 });
  });

  test('writes NDJSON with every digit', async () => {
    await store(2);
    const { out } = await run(['shipments', '--format', 'ndjson', '--columns', 'id,status,shipped_on,raw']);
    const [first = '', second, ...rest] = out.split('\n');
    expect(first).toContain('"raw":{"price": 12345678901234567890.10}');
    expect(JSON.parse(first)).toMatchObject({ id: 1, status: nasty, shipped_on: '2026-05-04T08:00:00.123456+00:00' });
    expect([second?.startsWith('{"id":2,'), rest]).toEqual([true, ['']]);
  });

  test('restricts rows to a client, to a time, and to changes of the feed, and says how to continue', async () => {
    await store(3);
    await store(2, 'other');
    await database.query(`
      insert into fulfilment.changes (client, entity, id, operation)
      values ('default', 'shipments', 1, 'created'), ('default', 'shipments', 2, 'updated'), ('other', 'orders', 1, 'created')`);
    await database.query("update fulfilment.shipments set changed_at = '2026-01-01' where id = 3");
    const ids = async (...options: string[]) => {
      const { out, err, code } = await run(['shipments', '--columns', 'client,id', ...options]);
      return code === 0 ? out.trim().split('\r\n').slice(1).sort() : err;
    };
    expect(await ids('--client', 'other')).toEqual(['other,1', 'other,2']);
    expect(await ids('--client', 'default', '--since', '2026-02-01')).toEqual(['default,1', 'default,2']);
    expect(await ids('--since', '1')).toEqual(['default,2']);
    expect(await ids('--since', '3')).toEqual([]);
    expect((await run(['shipments', '--since', '1'])).err).toBe(
      '1 rows of shipments. Changes after this export: --since 3',
    );
    await database.query('update sync.feed_mark set pruned_until = 2');
    expect(await ids('--since', '1')).toContain('read the tables again, then continue from 3');
    expect((await run(['changes', '--since', '2', '--columns', 'seq,entity'])).out).toBe('seq,entity\r\n3,orders\r\n');
  });

  test('compares rows without an id with the keys of the feed', async () => {
    await database.query(`
      insert into fulfilment.parcels (client, shipment_id, package_number, read_no, raw)
      values ('default', 7, 'A:1', 1, '{}'), ('default', 7, '', 1, '{}')`);
    await database.query(`
      insert into fulfilment.changes (client, entity, key, operation) values ('default', 'parcels', '7:A:1', 'created')`);
    const columns = ['--columns', 'package_number'];
    expect((await run(['parcels', ...columns, '--since', '0'])).out).toBe('package_number\r\nA:1\r\n');
  });

  test.each([
    [
      ['no_such'],
      /There is no table or view no_such in schema fulfilment; there are changes, .*shipments.*track_traces/,
    ],
    [['sync.leases'], /There is no table or view sync.leases in schema fulfilment/],
    [['shipments; drop table x'], /There is no table or view/],
    [['shipments', '--columns', 'id,no'], /shipments has no column no; its columns are client, id, status/],
    [['shipments', '--columns', ''], /has no column \(empty\)/],
    [['consumers', '--client', 'a'], /consumers is not divided by client/],
    [['shipment_lines', '--since', '1'], /the feed does not name rows of shipment_lines/],
    [['outbox', '--since', '2026-01-01'], /does not store when a row changed.*; give a seq of the feed/],
    [['shipments', '--since', 'yesterday'], /--since takes a seq of the feed, such as 1200, or a time/],
    [['shipments', '--since', '2026-13-45'], /--since takes a seq of the feed/],
    [['shipments', '--format', 'xml'], /Allowed choices are csv, ndjson/],
  ])('refuses %j', async (args, words) => {
    const { code, out, err } = await run(args);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(words);
  });

  test('writes a file that appears when it is complete, for its owner only', async () => {
    await store(2);
    const file = join(folder, 'shipments.csv');
    expect(await run(['shipments', '--columns', 'id', '--output', file])).toMatchObject({ code: 0, out: '' });
    expect(readFileSync(file, 'utf8')).toBe('id\r\n1\r\n2\r\n');
    expect([statSync(file).mode & 0o777, existsSync(`${file}.part`)]).toEqual([0o600, false]);
    const { code, err } = await run(['shipments', '--output', join(folder, 'no/such/folder.csv')]);
    expect([code, err]).toEqual([1, expect.stringContaining('ENOENT')]);
  });

  test('ends quietly when its reader wants no more, and leaves nothing behind in the database', async () => {
    await store(30_000);
    const { PATH = '' } = process.env;
    const env = { PATH, HOME: folder, DATABASE_URL: database.url };
    const command = `${process.execPath} ${program} export shipments | head -n 2; echo "\${PIPESTATUS[@]}"`;
    const { stdout, stderr } = await promisify(execFile)('bash', ['--norc', '-c', command], { env });
    expect(stderr).toBe('');
    expect(stdout.trim().split('\n').at(-1)).toBe('0 0');
    await waitFor(
      'the COPY to end',
      async () =>
        (await database.query("select from pg_stat_activity where application_name = 'fulfilment-sync export'"))
          .length === 0,
    );
  });

  test('fails if the database ends the export, and leaves no file that looks complete', async () => {
    await store(30_000);
    const { child, ended, err } = start(['shipments']);
    // Nobody reads: the COPY waits in the middle.
    await waitFor(
      'the COPY',
      async () =>
        (
          await database.query(
            "select pg_terminate_backend(pid) from pg_stat_activity where query like 'copy %' and wait_event = 'ClientWrite'",
          )
        ).length > 0,
    );
    child.stdout.resume();
    expect(await ended).toBe(1);
    expect(await err).not.toBe('');
  });

  test('shows a role of the ERP what it may read, and nothing to a role without grants', async () => {
    await store(1);
    const as = (role: string) => {
      const url = new URL(database.url);
      url.searchParams.set('options', `-c role=${role}`);
      return url.href.replaceAll('+', '%20');
    };
    const reader = await run(['shipments', '--columns', 'id', '--since', '0'], as('fulfilment_reader'));
    expect(reader).toMatchObject({ code: 0, out: 'id\r\n' });
    await database.query('create role no_grants');
    try {
      const { code, err } = await run(['shipments'], as('no_grants'));
      expect([code, err]).toEqual([2, expect.stringContaining('use a role with the grants of fulfilment_reader')]);
    } finally {
      await database.query('drop role no_grants');
    }
  });
});
