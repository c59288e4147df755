import { request } from 'node:http';
import { expect, test } from 'vitest';
import { useAdmin, Visitor } from '../../../helpers/admin.ts';
import { useDatabase } from '../../../helpers/database.ts';

const database = useDatabase();
const admin = useAdmin(database);
const token = 'a-token-that-is-long-enough-to-be-taken';
const guarded = [
  '/',
  '/outbox',
  '/outbox/1',
  '/runs',
  '/schedules',
  '/quarantine',
  '/audit',
  '/metrics',
  '/queues',
];

/** Returns the status of a request with this Host header, which fetch does not allow to set. */
const requestAsHost = (port: number, host: string, headers: Record<string, string> = {}) =>
  new Promise<number | undefined>((resolve, reject) => {
    request({ port, host: '127.0.0.1', headers: { ...headers, host } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    })
      .on('error', reject)
      .end();
  });

test('without a token only host names of this machine are answered, against DNS rebinding', async () => {
  const { port } = await admin();
  for (const host of ['127.0.0.1:8080', 'localhost', '[::1]:9000'])
    expect([host, await requestAsHost(port, host)]).toEqual([host, 200]);
  for (const host of ['evil.example', '127.0.0.1.evil.example', '10.0.0.1'])
    expect([host, await requestAsHost(port, host)]).toEqual([host, 421]);
});

test('no forwarded host replaces the Host header, against DNS rebinding', async () => {
  // The configuration refuses this. The check does not depend on that.
  const env = { ADMIN_TOKEN: token, ADMIN_TRUSTED_PROXIES: '127.0.0.1' };
  const { port } = await admin(env, undefined, { ADMIN_TOKEN: undefined });
  expect(await requestAsHost(port, 'evil.example', { 'x-forwarded-host': 'localhost' })).toBe(421);
});

test('with a token everything except probes, login and assets requires it', async () => {
  const { visitor } = await admin({ ADMIN_TOKEN: token });
  for (const path of guarded) {
    expect([path, (await visitor.get(path, { accept: '*/*' })).status]).toEqual([path, 401]);
    const page = await visitor.get(path);
    expect([path, page.status, page.headers.get('location')]).toEqual([
      path,
      303,
      `/login?next=${encodeURIComponent(path)}`,
    ]);
  }
  expect((await visitor.get('/nowhere', { accept: '*/*' })).status).toBe(401);
  for (const path of [
    '/livez',
    '/login',
    '/assets/page.css',
    '/assets/page.js',
    '/assets/icon.svg',
  ])
    expect([path, (await visitor.get(path)).status]).toEqual([path, 200]);
  // This worker has not started, but the probe answers.
  expect((await visitor.get('/readyz')).status).toBe(503);
  for (const path of guarded.filter((one) => one !== '/outbox/1'))
    expect([path, (await visitor.get(path, { authorization: `Bearer ${token}` })).status]).toEqual([
      path,
      200,
    ]);
});

test('login sets a cookie that scripts cannot read, and leads back; logout ends the session', async () => {
  const { visitor, port } = await admin({ ADMIN_TOKEN: token });
  const answer = await visitor.post(
    '/login',
    { token, next: '/outbox?status=dead' },
    '/login?next=/outbox',
  );
  expect([answer.status, answer.headers.get('location')]).toEqual([303, '/outbox?status=dead']);
  const [cookie = ''] = answer.headers
    .getSetCookie()
    .filter((line) => line.startsWith('fulfilment_session='));
  expect(cookie).toMatch(/; HttpOnly/);
  expect(cookie).toMatch(/; SameSite=Lax/);
  expect(cookie).not.toContain(token);
  expect((await visitor.get('/')).status).toBe(200);

  const forged = (value: string) =>
    new Visitor(`http://127.0.0.1:${port}`).get('/', { cookie: `fulfilment_session=${value}` });
  const [, value = ''] = /^[^=]+=([^;]+)/.exec(cookie) ?? [];
  expect((await forged(value)).status).toBe(200);
  // The cookie says whose role it gives.
  for (const other of [value.replace('operator', 'viewer'), 'operator.abc', value.slice(0, -1)])
    expect((await forged(other)).status).toBe(303);

  expect((await visitor.post('/logout')).status).toBe(403);
  expect((await visitor.post('/logout', {}, '/')).headers.get('location')).toBe('/login');
  expect((await visitor.get('/')).status).toBe(303);
});

test('a login never leads to another site', async () => {
  const { visitor } = await admin({ ADMIN_TOKEN: token });
  for (const next of [
    '//evil.example',
    '/\\evil.example',
    'https://evil.example/',
    'javascript:alert(1)',
    '/.//evil.example',
    '/%2e//evil.example',
    'http://here.invalid//evil.example',
  ]) {
    const answer = await visitor.post('/login', { token, next }, '/login');
    expect(answer.headers.get('location'), next).toMatch(/^\/(?![/\\])|^\/$/);
  }
});

test('after ten wrong tokens an address is refused, even with the right one; sessions continue', async () => {
  const { visitor, port, logged } = await admin({ ADMIN_TOKEN: token });
  await visitor.post('/login', { token }, '/login');
  const stranger = new Visitor(`http://127.0.0.1:${port}`);
  const bearer = async (given: string) =>
    (await stranger.get('/metrics', { authorization: `Bearer ${given}` })).status;
  for (let attempt = 0; attempt < 10; attempt++) expect(await bearer(`wrong-${attempt}`)).toBe(401);
  expect(await bearer('wrong-again')).toBe(429);
  expect(await bearer(token)).toBe(429);
  const form = await stranger.post('/login', { token }, '/login');
  expect([form.status, Number(form.headers.get('retry-after'))]).toEqual([429, expect.any(Number)]);
  expect((await visitor.get('/')).status).toBe(200);
  expect(logged.filter((line) => line.includes('admin_refused'))).toHaveLength(10);
  expect(logged.join()).not.toContain('wrong-');
});

test('a browser gets a page, and a program JSON, if a form has expired or a token may not act', async () => {
  const viewerToken = 'a-viewer-token-that-is-long-enough-too';
  const { visitor } = await admin({ ADMIN_TOKEN: token, ADMIN_VIEWER_TOKEN: viewerToken });
  const post = async (path: string, headers: Record<string, string> = {}) => {
    const answer = await visitor.post(path, {}, undefined, headers);
    return [answer.status, answer.headers.get('content-type'), await answer.text()];
  };
  const json = { accept: 'application/json' };
  const isPage = /^text\/html/;

  await visitor.post('/login', { token }, '/login');
  const expired = [403, expect.stringMatching(isPage), expect.stringMatching(/<nav.*has expired/s)];
  expect(await post('/schedules/pause')).toEqual(expired);
  const [, type, text] = await post('/schedules/pause', json);
  expect([type, text]).toEqual([
    expect.stringContaining('application/json'),
    expect.stringMatching(/^\{"error":"The form has expired/),
  ]);

  const foreign = { origin: 'http://evil.example' };
  const [, foreignType, foreignText] = await post('/login', foreign);
  expect([foreignType, foreignText]).toEqual([
    expect.stringMatching(isPage),
    expect.not.stringContaining('<nav'),
  ]);

  await visitor.post('/login', { token: viewerToken }, '/login');
  const refused = [403, expect.stringMatching(isPage), expect.stringContaining('may only read')];
  expect(await post('/outbox/1/retry')).toEqual(refused);
});

test('headers forbid foreign scripts, frames and caches', async () => {
  const { visitor } = await admin();
  const login = (await admin({ ADMIN_TOKEN: token })).visitor;
  const [{ headers }, ...others] = [
    await visitor.get('/'),
    await login.get('/login'),
    await visitor.get('/nowhere'),
    await login.get('/assets/page.css'),
  ] as const;
  for (const other of others)
    expect(other.headers.get('content-security-policy')).toBe(
      headers.get('content-security-policy'),
    );
  expect(headers.get('content-security-policy')).toBe(
    "default-src 'none';script-src 'self';style-src 'self';img-src 'self';connect-src 'self';form-action 'self';base-uri 'none';frame-ancestors 'none'",
  );
  expect(headers.get('cache-control')).toBe('no-store');
  expect(headers.get('x-content-type-options')).toBe('nosniff');
  // Otherwise browsers would hide the origin of our own forms.
  expect(headers.get('referrer-policy')).toBe('same-origin');
});
