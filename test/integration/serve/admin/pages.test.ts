import { describe, expect, test } from 'vitest';
import { ensureJobs } from '../../../../src/schedule/sql/due-jobs.ts';
import { registerClients } from '../../../../src/service/sql/clients.ts';
import { useAdmin } from '../../../helpers/admin.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { storePageRows } from '../../../helpers/page-rows.ts';
import { insertHealth } from '../../../helpers/service-health.ts';

const database = useDatabase();
const admin = useAdmin(database);

const order = {
  externalOrderNumber: 'SO-1',
  email: 'jan@example.com',
  items: [{ sku: 'MUG', quantity: 1 }],
};

/** Inserts an outbox row with this status, and returns its id. */
async function insertRow(
  status: 'dead' | 'unknown' | 'pending',
  reference = 'SO-1',
  kind = 'order.create',
): Promise<number> {
  const [{ id } = { id: 0 }] = await database.query<{ id: number }>(
    `insert into fulfilment.outbox (kind, reference, payload) values ($1, $2, $3) returning id`,
    [kind, reference, JSON.stringify(order)],
  );
  const changes = {
    dead: `status = 'dead', next_attempt_at = null, finished_at = now(), last_error = 'refused: «no such sku»'`,
    unknown: `status = 'unknown', next_attempt_at = null, claim_no = 1, written_at = now(), attempts = 1`,
    pending: `attempts = 0`,
  };
  await database.query(`update fulfilment.outbox set ${changes[status]} where id = $1`, [id]);
  return id;
}

const readAudit = () =>
  database.query<{ action: string; detail: string }>(
    'select action, client, detail, by from sync.audit order by id',
  );
const readStatus = async (id: number) =>
  (
    await database.query<{ status: string }>('select status from fulfilment.outbox where id = $1', [
      id,
    ])
  )[0]?.status;

describe('the page of an outbox row', () => {
  test('says why the row is dead, masks payload and result, and records who reveals them', async () => {
    const { visitor } = await admin();
    const id = await insertRow('dead');
    const page = await (await visitor.get(`/outbox/${id}`)).text();
    expect(page).toContain('refused: «no such sku»');
    expect(page).toContain('MUG');
    expect(page).not.toContain('jan@example.com');
    await database.query(
      `update fulfilment.outbox set status = 'done', result = '{"orderId": 5, "fileName": "CANARY.pdf"}'`,
    );
    for (const accept of ['text/html', 'application/json']) {
      const result = await (await visitor.get(`/outbox/${id}`, { accept })).text();
      expect(result).toContain('orderId');
      expect(result).not.toContain('CANARY');
    }
    expect(await readAudit()).toEqual([]);
    const revealed = await (await visitor.post(`/outbox/${id}/reveal`, {}, `/outbox/${id}`)).text();
    expect(revealed).toContain('jan@example.com');
    expect(revealed).toContain('CANARY.pdf');
    expect(await readAudit()).toMatchObject([
      { action: 'outbox_reveal', detail: `outbox row ${id}`, by: 'page 127.0.0.1' },
    ]);
  });

  test('retries, replaces, marks as done and cancels a row, each with an entry in the audit', async () => {
    const { visitor } = await admin();
    const ids = {
      retry: await insertRow('dead', 'A'),
      replace: await insertRow('dead', 'B'),
      done: await insertRow('unknown', 'C'),
      cancel: await insertRow('pending', 'D'),
    };
    const fields = {
      retry: {},
      replace: { payload: '{"externalOrderNumber":"B"}', sure: 'on' },
      done: { sure: 'on', result: '{"orderId":7}' },
      cancel: { sure: 'on' },
    };
    for (const [action, id] of Object.entries(ids)) {
      const answer = await visitor.post(
        `/outbox/${id}/${action}`,
        fields[action as keyof typeof fields],
        `/outbox/${id}`,
      );
      expect([action, answer.status, answer.headers.get('location')]).toEqual([
        action,
        303,
        `/outbox/${id}`,
      ]);
    }
    expect(await Promise.all(Object.values(ids).map(readStatus))).toEqual([
      'pending',
      'pending',
      'done',
      'cancelled',
    ]);
    expect(
      await database.query(
        'select result, payload from fulfilment.outbox where id in ($1, $2) order by id',
        [ids.replace, ids.done],
      ),
    ).toMatchObject([{ payload: { externalOrderNumber: 'B' } }, { result: { orderId: 7 } }]);
    expect((await readAudit()).map(({ action, detail }) => [action, detail])).toEqual(
      Object.entries(ids).map(([action, id]) => [`outbox_${action}`, `outbox row ${id}`]),
    );
  });
});

test('a refused replacement keeps the text, names the place, and can be stored anyway', async () => {
  const { visitor } = await admin();
  const id = await insertRow('dead');
  const replace = async (fields: Record<string, string>) =>
    visitor.post(`/outbox/${id}/replace`, fields, `/outbox/${id}`);
  const broken = await (await replace({ payload: '{\n  "locale" "nl"\n}' })).text();
  expect(broken).toContain('The payload must be a JSON object');
  expect(broken).toContain('{\n  &quot;locale&quot; &quot;nl&quot;\n}</textarea>');
  expect(broken).toMatch(/line 2 column 1\d/);
  expect(broken).not.toContain('Store it anyway');
  expect(await (await replace({ payload: '{"locale": 7}' })).text()).toContain('Store it anyway');
  expect((await replace({ payload: '{"locale": 7}', sure: 'on' })).status).toBe(303);
  const history = await database.query<{ by: string }>(
    `select by from sync.outbox_attempts where step = 'replaced'`,
  );
  expect(history).toEqual([{ by: 'page 127.0.0.1' }]);
});

test('no page turns the text of a row into markup', async () => {
  const { visitor } = await admin();
  const nasty = `"><script>alert(1)</script><img src=x onerror='alert(2)'>`;
  await storePageRows(database, { words: nasty });
  await database.query(
    `insert into sync.clients (client, identity, base_url) values ($1, 'x', $1)`,
    [nasty],
  );
  await insertHealth(database, { client: nasty, words: nasty, code: 'no_answer', sendWindow: 0 });
  for (const path of [
    '/',
    '/outbox',
    '/outbox/1',
    '/runs',
    '/schedules',
    '/quarantine',
    '/audit',
    `/outbox?reference=${encodeURIComponent(nasty)}`,
    `/orders?q=${encodeURIComponent(`${nasty} not found`)}`,
    `/order?client=default&number=${encodeURIComponent(nasty)}`,
    `/login?next=${encodeURIComponent(nasty)}`,
    `/?said=${encodeURIComponent(nasty)}&at=${Date.now()}`,
  ]) {
    const text = await (await visitor.get(path)).text();
    expect([path, /<script>|<img/.test(text)]).toEqual([path, false]);
    if (!/login|said/.test(path) && path !== '/schedules')
      expect([path, text.includes('&lt;script&gt;')]).toEqual([path, true]);
  }
});

describe('/schedules', () => {
  const client = 'default';
  const setUp = () =>
    ensureJobs(database.db, [{ client, job: 'pull-orders', stream: 'orders', due: 'never' }]);
  const jobs = () => database.query('select next_at <= now() as due from sync.jobs');

  test('pauses a job, resumes it, and requests a run', async () => {
    await registerClients(database.db, [{ client, identity: 'x', baseUrl: 'http://127.0.0.1:9' }]);
    await setUp();
    const { visitor } = await admin();
    const fields = { client, job: 'pull-orders' };
    await visitor.post('/schedules/pause', fields, '/schedules');
    expect(await (await visitor.get('/schedules')).text()).toMatch(
      /paused<\/span> <small>by page 127\.0\.0\.1/,
    );
    await visitor.post('/schedules/resume', fields, '/schedules');
    expect(await jobs()).toEqual([{ due: false }]);
    await visitor.post('/schedules/run', fields, '/schedules');
    expect(await jobs()).toEqual([{ due: true }]);
    expect((await readAudit()).map(({ action, detail }) => [action, detail])).toEqual([
      ['paused', 'pull-orders'],
      ['resumed', 'pull-orders'],
      ['run_requested', 'pull-orders'],
    ]);
  });

  test('refuses to run an unknown client or job, and a job that is off', async () => {
    const { visitor } = await admin();
    for (const [status, fields] of [
      [400, { client: 'nobody', job: 'pull-orders' }],
      [400, { client, job: 'pull-everything' }],
      [404, { client, job: 'reconcile' }],
      [409, { client, job: 'pull-stock' }],
    ] as const)
      expect((await visitor.post('/schedules/run', fields, '/schedules')).status).toBe(status);
    expect(await readAudit()).toEqual([]);
  });
});

describe('/runs', () => {
  const numbers = (text: string) =>
    [...text.matchAll(/data-label="run"[^>]*><div>(\d+)</g)].map(([, number]) => Number(number));

  test('shows the runs by client, job and status, page by page', async () => {
    await ensureJobs(
      database.db,
      ['a', 'b'].flatMap((client) =>
        ['orders', 'shipments'].map((stream) => ({
          client,
          job: `pull-${stream}`,
          stream,
          due: null,
        })),
      ),
    );
    await database.query(`
      insert into sync.runs (client, job, trigger, worker, lease_key, started_at, status, finished_at, error)
      select case when n % 2 = 0 then 'a' else 'b' end, case when n <= 150 then 'pull-orders' else 'pull-shipments' end, 'schedule', 'w', n, now(),
        case when n % 50 = 0 then 'failed' else 'done' end, now(), case when n % 50 = 0 then 'away' end
      from generate_series(1, 300) n`);
    const { visitor } = await admin();
    const listRuns = async (query: string) =>
      numbers(await (await visitor.get(`/runs?${query}`)).text());
    const all = await listRuns('');
    expect([all.length, all[0], all.at(-1)]).toEqual([20, 300, 281]);
    expect(await (await visitor.get('/runs')).text()).toContain('href="/runs?before=281"');
    expect((await listRuns('before=201'))[0]).toBe(200);
    expect(await listRuns('status=failed')).toEqual([300, 250, 200, 150, 100, 50]);
    expect((await listRuns('client=b&status='))[0]).toBe(299);
    expect((await listRuns('client=a&job=pull-orders&status=done&before=100'))[0]).toBe(98);
    expect((await visitor.get('/runs?status=none')).status).toBe(400);
  });
});

describe('the list of the outbox', () => {
  const readIds = async (address: string) => {
    const { visitor } = await admin();
    const answer = await visitor.get(address, { accept: 'application/json' });
    const { rows } = (await answer.json()) as { rows: { id: number }[] };
    return rows.map(({ id }) => id);
  };

  test('groups rows by who has to do something, newest first', async () => {
    const [dead, undecided, pending] = [
      await insertRow('dead', 'A'),
      await insertRow('unknown', 'B'),
      await insertRow('pending', 'C'),
    ];
    expect(await readIds('/outbox')).toEqual([pending, undecided, dead]);
    expect(await readIds('/outbox?group=needs+you')).toEqual([undecided, dead]);
    expect(await readIds('/outbox?group=waiting')).toEqual([pending]);
    expect(await readIds('/outbox?group=done')).toEqual([]);
  });

  test('a status that is chosen in a group shows all rows of that status', async () => {
    const dead = await insertRow('dead', 'A');
    await insertRow('pending', 'B');
    const { visitor } = await admin();
    const page = await (await visitor.get('/outbox?group=waiting')).text();
    const query = new URLSearchParams({ status: 'dead' });
    for (const [, name = '', value = ''] of page.matchAll(
      /type="hidden" name="(\w+)" value="([^"]*)"/g,
    ))
      if (name !== '_csrf') query.set(name, value);
    expect(await readIds(`/outbox?${query}`)).toEqual([dead]);
  });

  test('acts on all selected rows, but only with a tick on those that it must not guess', async () => {
    const { visitor } = await admin();
    const dead = await insertRow('dead', 'A');
    const undecided = await insertRow('unknown', 'B');
    const select = async (ids: readonly number[], more: Record<string, string>) => {
      const page = await (await visitor.get('/outbox')).text();
      const csrf =
        /action="\/outbox\/selected"><input type="hidden" name="_csrf" value="([^"]+)"/.exec(page);
      const body = new URLSearchParams({ _csrf: csrf?.[1] ?? '' });
      for (const id of ids) body.append('ids', String(id));
      for (const [name, value] of Object.entries(more)) body.append(name, value);
      return visitor.send('/outbox/selected', body);
    };

    const some = await select([dead, undecided], { action: 'retry' });
    expect(some.headers.get('location')).toContain('said=some');
    expect([await readStatus(dead), await readStatus(undecided)]).toEqual(['pending', 'unknown']);

    const all = await select([dead], { action: 'cancel', sure: 'on' });
    expect(all.headers.get('location')).toContain('said=all');
    expect(await readStatus(dead)).toBe('cancelled');
    expect((await select([], { action: 'retry' })).status).toBe(400);

    await database.query(`
      insert into fulfilment.outbox (kind, reference, status, next_attempt_at, finished_at, last_error)
      select 'order.create', 'M-' || n, 'dead', null, now(), 'no' from generate_series(1, 100) n`);
    const many = await database.query<{ id: number }>(
      "select id from fulfilment.outbox where reference like 'M-%'",
    );
    const ids = many.map(({ id }) => id);
    const whole = await select(ids, { action: 'cancel', sure: 'on' });
    expect(whole.headers.get('location')).toContain('said=all');
    expect(await database.count("fulfilment.outbox where status = 'cancelled'")).toBe(101);
  });
});
