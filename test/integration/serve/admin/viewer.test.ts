import { describe, expect, test } from 'vitest';
import { maskQuotes } from '../../../../src/serve/pages/view.ts';
import { useAdmin } from '../../../helpers/admin.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { orderPayload } from '../../../helpers/order-payload.ts';

const database = useDatabase();
const start = useAdmin(database);
const token = 'an-operator-token-that-is-long-enough';
const viewerToken = 'a-viewer-token-that-is-long-enough-too';
const tokens = { ADMIN_TOKEN: token, ADMIN_VIEWER_TOKEN: viewerToken };
const pages = [
  '/',
  '/outbox',
  '/outbox/1',
  '/runs',
  '/schedules',
  '/quarantine',
  '/audit',
  '/queues',
  '/metrics',
];
const actions = [
  ['/outbox/1/retry', {}],
  ['/outbox/1/done', { sure: 'on' }],
  ['/outbox/1/cancel', { sure: 'on' }],
  ['/outbox/1/replace', { payload: '{}' }],
  ['/outbox/1/reveal', {}],
  ['/schedules/pause', { client: 'default', job: 'pull-orders' }],
  ['/schedules/resume', { client: 'default', job: 'pull-orders' }],
  ['/schedules/run', { client: 'default', job: 'pull-orders' }],
  ['/orders', { q: 'anna@example.com' }],
] as const;

/** Inserts a dead row, and a job that can be paused. */
async function prepare(): Promise<void> {
  await database.query(
    `insert into fulfilment.outbox (kind, reference, payload, status, next_attempt_at, finished_at, last_error)
     values ('order.create', 'SO-1', $1, 'dead', null, now(), 'answered 422: «Anna de Vries is unknown»')`,
    [JSON.stringify(orderPayload('SO-1'))],
  );
  await database.query(
    "insert into sync.jobs (client, job, next_at) values ('default', 'pull-orders', now())",
  );
}
const readAudit = () => database.query<{ by: string }>('select by from sync.audit order by id');

describe('a viewer', () => {
  test.each(['bearer', 'login'] as const)(
    'reads every page, finds no form and changes nothing: %s',
    async (access) => {
      await prepare();
      const { visitor } = await start(tokens);
      const headers: Record<string, string> =
        access === 'bearer' ? { authorization: `Bearer ${viewerToken}` } : {};
      if (access === 'login')
        expect((await visitor.post('/login', { token: viewerToken }, '/login')).status).toBe(303);
      for (const path of pages) {
        const answer = await visitor.get(path, headers);
        expect([path, answer.status]).toEqual([path, 200]);
        const text = await answer.text();
        expect(text).not.toMatch(/anna@example\.com|de Vries/);
        expect(text.replace(/<form method="post" action="\/logout">/, '')).not.toContain(
          'method="post"',
        );
      }
      for (const [path, fields] of actions) {
        const body = new URLSearchParams(fields);
        const answer =
          access === 'bearer'
            ? await fetch(new URL(path, visitor.base), { method: 'POST', body, headers })
            : await visitor.post(path, fields, '/');
        expect([path, answer.status]).toEqual([path, 403]);
        expect(await answer.text()).toContain('ADMIN_VIEWER_TOKEN may only read');
      }
      expect(await readAudit()).toEqual([]);
      expect(await database.query('select status from fulfilment.outbox')).toEqual([
        { status: 'dead' },
      ]);
    },
  );
});

test.each([
  ['<p>a «Anna» b</p>', '<p>a «…» b</p>'],
  ['<p>a «Anna</p><p>b</p>', '<p>a «…»</p><p>b</p>'],
  ['<input value="«Anna"><p>b</p>', '<input value="«…»"><p>b</p>'],
])('quoted words are removed, and the markup stays whole: %s', (markup, masked) => {
  expect(maskQuotes(markup)).toBe(masked);
});

describe('behind a reverse proxy', () => {
  const proxied = {
    ADMIN_TRUSTED_PROXIES: '127.0.0.1, ::1',
    ADMIN_USER_HEADER: 'X-Forwarded-User',
  };
  const user = `anna@shop.example${'x'.repeat(5_000)}`;
  test.each([
    [proxied.ADMIN_TRUSTED_PROXIES, `${user.slice(0, 100)} (page 203.0.113.7)`],
    ['10.0.0.0/8', 'page 127.0.0.1'],
  ])('only a proxy of %s names the user and the address in the audit', async (proxies, by) => {
    await prepare();
    const { visitor } = await start({
      ADMIN_TOKEN: token,
      ...proxied,
      ADMIN_TRUSTED_PROXIES: proxies,
    });
    await visitor.post('/login', { token }, '/login');
    const headers = { 'x-forwarded-for': '203.0.113.7', 'x-forwarded-user': user };
    const fields = { client: 'default', job: 'pull-orders' };
    await visitor.post('/schedules/pause', fields, '/schedules', headers);
    expect(await readAudit()).toEqual([{ by }]);
  });

  test('wrong tokens are counted by the address behind the proxy', async () => {
    const { visitor } = await start({ ADMIN_TOKEN: token, ...proxied });
    const tryToken = async (address: string, given: string) =>
      (await visitor.get('/runs', { 'x-forwarded-for': address, authorization: `Bearer ${given}` }))
        .status;
    for (let tries = 0; tries < 10; tries++)
      expect(await tryToken('203.0.113.7', 'wrong')).toBe(401);
    expect(await tryToken('203.0.113.7', token)).toBe(429);
    expect(await tryToken('203.0.113.8', token)).toBe(200);
  });

  test('every link, form and redirect has ADMIN_BASE_PATH; probes answer with and without it', async () => {
    await prepare();
    const { visitor } = await start({ ADMIN_TOKEN: token, ADMIN_BASE_PATH: '/warehouse/sync/' });
    const base = '/warehouse/sync';
    for (const path of ['/livez', `${base}/livez`])
      expect((await visitor.get(path)).status).toBe(200);
    const refused = await visitor.get(`${base}/outbox?status=dead`);
    expect(refused.headers.get('location')).toBe(`${base}/login?next=%2Foutbox%3Fstatus%3Ddead`);
    const login = await visitor.post(
      `${base}/login`,
      { token, next: '/outbox?status=dead' },
      `${base}/login`,
    );
    expect(login.headers.get('location')).toBe(`${base}/outbox?status=dead`);
    for (const path of pages.slice(0, -2)) {
      const text = await (await visitor.get(`${base}${path}`)).text();
      const addresses = [...text.matchAll(/ (?:href|src|action)="([^"#][^"]*)"/g)].map(
        ([, address]) => address,
      );
      expect(addresses.length).toBeGreaterThan(5);
      expect(addresses.filter((address) => !address?.startsWith(`${base}/`))).toEqual([]);
      expect(text).not.toContain(`${base}${base}`);
    }
    const css = await visitor.get(`${base}/assets/page.css`);
    expect(css.status).toBe(200);
    const done = await visitor.post(`${base}/outbox/1/cancel`, { sure: 'on' }, `${base}/outbox/1`);
    expect(done.headers.get('location')).toBe(`${base}/outbox/1`);
  });
});
