import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ConfigError } from '../../../config/config-error.ts';
import {
  findDroppedSecrets,
  findOpenFiles,
  readConfig,
  secretNames,
  variableNames,
} from '../../../config/env.ts';
import { jobNames, polledStreams, pushJob } from '../../../config/jobs.ts';
import { parseSchedule } from '../../../config/schedules.ts';
import { jobs } from '../../../jobs/registry.ts';
import { streams } from '../../../src/pull/streams/all-streams.ts';

const needs = { database: true, clients: true };
const base = {
  DATABASE_URL: 'postgres://u:p@localhost/erp',
  WAREHOUSE_BASE_URL: 'https://service.example/base',
  WAREHOUSE_USERNAME: 'shop',
  WAREHOUSE_PASSWORD: 'secret',
};

function readProblems(env: NodeJS.ProcessEnv): readonly string[] {
  try {
    readConfig(needs, env);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-config-'));
});
afterEach(() => rmSync(folder, { recursive: true }));
const file = (name: string, content: string) => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};

describe('readConfig', () => {
  test('names every problem at once', () => {
    const wrong = {
      WAREHOUSE_BASE_URL: 'ftp://x',
      LOOKBACK_DAYS: 'seven',
      SCHEDULE_PULL_SHIPMENTS: 'often',
      SCHEDULE_PULL_NOTHING: '1m',
      WAREHOUSE_TIME_ZONE: 'Mars/Base',
    };
    const problems = readProblems({ ...wrong, ADMIN_HOST: '0.0.0.0' }).join('\n');
    const missing = ['DATABASE_URL', 'WAREHOUSE_USERNAME', 'WAREHOUSE_PASSWORD', 'ADMIN_TOKEN'];
    for (const name of [...Object.keys(wrong), ...missing]) expect(problems).toContain(name);
  });

  test('reads a secret from its variable or its file, but not from both', () => {
    const { WAREHOUSE_PASSWORD: _, ...rest } = base;
    const inFile = (content: string | Buffer) => {
      const path = join(folder, 'secret');
      writeFileSync(path, content);
      return { ...rest, WAREHOUSE_PASSWORD_FILE: path };
    };
    // The mark of UTF-8 and line ends do not belong to the secret.
    for (const content of ['secret', '\ufeffsecret\r\n', 'secret\n\n'])
      expect(readConfig(needs, inFile(content)).clients[0]?.password).toBe('secret');
    const none = { ...rest, WAREHOUSE_PASSWORD_FILE: join(folder, 'none') };
    expect(readProblems({ ...inFile('x'), WAREHOUSE_PASSWORD: 'x' })).toEqual([
      expect.stringContaining('WAREHOUSE_PASSWORD_FILE'),
    ]);
    expect(readProblems(none).join()).toContain('cannot be read: there is no such file');
    // An empty file of docker-compose.yml means that nothing is posted.
    const config = readConfig(needs, { ...base, ALERT_WEBHOOK_URL_FILE: file('no-url', '') });
    expect(config.ALERT_WEBHOOK_URL).toBeUndefined();
  });

  test.each([
    [' secret', 'it begins or ends with a blank'],
    ['secret \n', 'it begins or ends with a blank'],
    ['\u00a0secret', 'it begins or ends with a blank'],
    ['secret\nsecond\n', 'it has several lines'],
    [Buffer.from('secret', 'utf16le'), 'it is not text in UTF-8'],
    [Buffer.from([0xff, 0xfe, 0x41]), 'it is not text in UTF-8'],
    ['\n', 'it is empty'],
    ['\ufeff\n', 'it is empty'],
  ])('refuses a file with the secret %j', (content, words) => {
    const { WAREHOUSE_PASSWORD: _, ...rest } = base;
    const path = join(folder, 'secret');
    writeFileSync(path, content);
    expect(readProblems({ ...rest, WAREHOUSE_PASSWORD_FILE: path }).join()).toContain(words);
  });

  test('refuses variables of one receiver of events beside a file of several', () => {
    const path = file('subscribers.json', '[{"name": "shop", "url": "https://shop.example/"}]');
    const secret = `whsec_${'A'.repeat(32)}`;
    const both = { EVENT_SUBSCRIBERS_FILE: path, EVENT_WEBHOOK_SECRET: secret };
    expect(readProblems({ ...base, ...both, EVENT_PERSONAL_DATA: 'true' })).toEqual([
      expect.stringMatching(
        /^EVENT_SUBSCRIBERS_FILE: .* EVENT_WEBHOOK_SECRET, EVENT_PERSONAL_DATA;/,
      ),
    ]);
  });

  test('names each secret that was set before and is not any more', () => {
    const secrets = { ADMIN_TOKEN: 'x'.repeat(40), REDIS_URL: 'redis://localhost' };
    const subscriber = { name: 'shop', url: 'https://shop.example/' };
    const secret = `whsec_${'A'.repeat(32)}`;
    const path = file('subscribers.json', JSON.stringify([{ ...subscriber, secret }]));
    const former = readConfig(needs, { ...base, ...secrets, EVENT_SUBSCRIBERS_FILE: path });
    file('subscribers.json', JSON.stringify([subscriber]));
    const next = readConfig(needs, { ...base, EVENT_SUBSCRIBERS_FILE: path });
    expect(findDroppedSecrets(former, next).map((problem) => problem.split(': was')[0])).toEqual([
      'REDIS_URL',
      'ADMIN_TOKEN',
      'EVENT_SUBSCRIBERS_FILE: the secret of shop',
    ]);
    expect(findDroppedSecrets(next, former)).toEqual([]);
  });

  test.skipIf(process.platform === 'win32')(
    'names each file that every user may write, or read with a secret',
    () => {
      chmodSync(folder, 0o755);
      const make = (name: string, mode: number, content = '[]') => {
        chmodSync(file(name, content), mode);
        return join(folder, name);
      };
      const password = make('password', 0o644, 's');
      const env = {
        WAREHOUSE_PASSWORD_FILE: make('private', 0o600),
        ADMIN_TOKEN_FILE: make('readable', 0o604),
        WAREHOUSE_OPERATIONS_FILE: make('operations', 0o644, '{}'),
        API_TOKENS_FILE: make('tokens', 0o666),
        WAREHOUSE_CLIENTS_FILE: make(
          'clients',
          0o640,
          JSON.stringify([{ passwordFile: password }]),
        ),
      };
      const find = () =>
        findOpenFiles(make('.env', 0o640), env).map(({ name, path, access }) => [
          name,
          basename(path),
          access,
        ]);
      expect(find()).toEqual([
        ['ADMIN_TOKEN_FILE', 'readable', 'read'],
        ['WAREHOUSE_CLIENTS_FILE', 'password', 'read'],
        ['API_TOKENS_FILE', 'tokens', 'write'],
      ]);
      // In such a folder, everybody may put another file in the place of one.
      chmodSync(folder, 0o777);
      expect(find()).toHaveLength(7);
      chmodSync(folder, 0o700);
      expect(find()).toEqual([]);
    },
  );

  test('overrides operations by name', () => {
    const readOperations = (entries: object) =>
      readConfig(needs, {
        ...base,
        WAREHOUSE_OPERATIONS_FILE: file('operations.json', JSON.stringify(entries)),
      }).operations;
    const moved = { method: 'PUT', path: '/v2/release' };
    const bulk = { method: 'GET', path: '/stock/bulk/{all}' };
    const entries = { 'v2.order.release': moved, 'oldest.stock.bulk': bulk };
    expect(readOperations({})['oldest.stock.bulk'].enabled).toBe(false);
    expect(readOperations(entries)).toMatchObject({
      'v2.order.release': { ...moved, documented: false },
      'oldest.stock.bulk': { ...bulk, documented: false },
    });
    const right = { 'v2.order.release': { ...moved, documented: true } };
    expect(readOperations(right)).toMatchObject(right);
    expect(() => readOperations({ 'v2.order.add': { method: 'GET', path: 'x' } })).toThrow(
      'v2.order.add.path',
    );
    expect(() => readOperations({ 'v3.inbound.get': bulk })).toThrow(
      /: v3\.inbound\.get is not an operation; known are v3\.orders\.list, .*, v3\.inbounds\.get, /,
    );
    expect(() => readOperations({ order: bulk })).toThrow(
      /known are common\.token, .*, v3\.orders/,
    );
  });
});

describe('WAREHOUSE_CLIENTS_FILE', () => {
  const { DATABASE_URL } = base;
  const client = { key: 'shop-a', baseUrl: 'https://a.example', username: 'a', password: 'pa' };
  const readClientProblems = (clients: unknown) =>
    readProblems({
      DATABASE_URL,
      WAREHOUSE_CLIENTS_FILE: file('clients.json', JSON.stringify(clients)),
    }).join('\n');

  test('holds any number of clients, each with a password or a password file', () => {
    const path = file(
      'clients.json',
      JSON.stringify([
        client,
        {
          ...client,
          key: 'b',
          username: 'b',
          password: undefined,
          passwordFile: file('b', 'pb'),
          timeZone: 'UTC',
        },
      ]),
    );
    const { clients } = readConfig(needs, { DATABASE_URL, WAREHOUSE_CLIENTS_FILE: path });
    expect(clients.map(({ key, password, timeZone }) => [key, password, timeZone])).toEqual([
      ['shop-a', 'pa', 'Europe/Amsterdam'],
      ['b', 'pb', 'UTC'],
    ]);
  });

  test.each([
    ['a bad key', [{ ...client, key: 'Shop' }], '0.key'],
    ['no password', [{ ...client, password: undefined }], 'shop-a'],
    ['two passwords', [{ ...client, passwordFile: 'x' }], 'shop-a'],
    ['a duplicate key', [client, { ...client, username: 'b' }], 'named twice'],
    ['one account twice', [client, { ...client, key: 'b' }], 'same base URL'],
    [
      'one account in two spellings',
      [client, { ...client, key: 'b', baseUrl: 'https://A.example.:443//' }],
      'same base URL',
    ],
    [
      'one account on this machine in two spellings',
      [
        { ...client, baseUrl: 'http://localhost:8081/Api' },
        { ...client, key: 'b', baseUrl: 'http://127.0.0.1:8081/api/' },
      ],
      'same base URL',
    ],
    ['an unknown member', [{ ...client, url: 'x' }], 'url'],
    ['no client', [], 'at least one'],
  ])('names %s', (_what, clients, words) => expect(readClientProblems(clients)).toContain(words));

  test('excludes the variables of a single client, and is never quoted if it is broken', () => {
    const one = { WAREHOUSE_CLIENTS_FILE: file('c.json', JSON.stringify([client])) };
    expect(readProblems({ ...base, ...one }).join()).toContain('keep one form');
    const zoned = { DATABASE_URL, ...one, WAREHOUSE_TIME_ZONE: 'UTC' };
    expect(readProblems(zoned).join()).toContain('WAREHOUSE_TIME_ZONE; keep one form');
    const blank = file('blank.json', JSON.stringify([{ ...client, username: '', password: ' ' }]));
    expect(readProblems({ DATABASE_URL, WAREHOUSE_CLIENTS_FILE: blank })).toEqual([
      'WAREHOUSE_CLIENTS_FILE: 0.username: must not be blank',
      'WAREHOUSE_CLIENTS_FILE: 0.password: must not be blank',
    ]);
    const broken = file('broken.json', '[{"password": "hunter2"');
    const problems = readProblems({ DATABASE_URL, WAREHOUSE_CLIENTS_FILE: broken }).join();
    expect(problems).toContain('not valid JSON');
    expect(problems).not.toContain('hunter2');
  });
});

describe('API_TOKENS_FILE', () => {
  const entry = { name: 'shop', sha256: 'a'.repeat(64), client: 'default', rights: ['read'] };
  const tokens = (entries: unknown) => ({
    ...base,
    API_TOKENS_FILE: file('tokens.json', JSON.stringify(entries)),
  });

  test('switches the API on, also without tokens', () => {
    expect(readConfig(needs, base).apiTokens).toBeNull();
    expect(readConfig(needs, tokens([])).apiTokens).toEqual([]);
    const config = readConfig(needs, tokens([entry]));
    expect([config.API_PORT, config.apiTokens]).toEqual([
      8070,
      [{ ...entry, requestsPerSecond: 500 }],
    ]);
  });

  test('has every problem of its tokens named', () => {
    expect(readProblems(tokens([entry, { ...entry, client: 'else' }]))).toEqual([
      'API_TOKENS_FILE: token shop: is named twice',
      'API_TOKENS_FILE: token shop: has the sha256 of another one',
      'API_TOKENS_FILE: token shop: there is no client else',
    ]);
    expect(
      readProblems(tokens([{ ...entry, sha256: 'secret', rights: [], token: 'x' }])),
    ).toHaveLength(3);
  });
});

test('.env.example names every variable', () => {
  const example = readFileSync(new URL('../../../.env.example', import.meta.url), 'utf8');
  const named = new Set([...example.matchAll(/^#? ?([A-Z][A-Z_]+)=/gm)].map(([, name]) => name));
  const scheduled = [...jobNames, pushJob.name].map(
    (job) => `SCHEDULE_${job.toUpperCase().replaceAll('-', '_')}`,
  );
  const known = [...variableNames, ...scheduled];
  expect([...named].sort()).toEqual([...known].sort());
  for (const name of secretNames) expect(example).toContain(`${name}_FILE`);
});

describe('schedules', () => {
  test.each([
    ['30s', { kind: 'every', everyMs: 30_000 }],
    ['1d', { kind: 'every', everyMs: 86_400_000 }],
    ['30s-4m', { kind: 'every', everyMs: 30_000, slowMs: 240_000 }],
    ['5 4 * * 1', { kind: 'cron', pattern: '5 4 * * 1' }],
    ['off', { kind: 'off' }],
  ])('parses %s', (text, schedule) => expect(parseSchedule(text)).toEqual(schedule));
  test.each([
    '',
    '0s',
    '2',
    '2w',
    '30s-',
    '4m-30s',
    '* * * * * *',
    '61 * * * *',
    'daily',
    'H H * * *',
    '3651d',
    '1d-999999999d',
  ])('refuses %j', (text) => expect(() => parseSchedule(text)).toThrow(RangeError));
});

const fixture = (name: string) =>
  fileURLToPath(new URL(`../../fixtures/tls/${name}.pem`, import.meta.url));
const [cert, key] = [fixture('client-cert'), fixture('client-key')];
const authority = fixture('authority-cert');
const withParameters = (parameters: string) => `${base.DATABASE_URL}?${parameters}`;
const token = 'a-token-that-is-long-enough-to-be-taken';

/** Settings that are refused, with the words of the problem. */
const refused: readonly (readonly [env: Record<string, string>, words: RegExp])[] = [
  ...['postgres://erp:a/b@db.test/erp', 'postgres://erp:a#b@db.test/erp'].map(
    (url) => [{ DATABASE_URL: url }, /^DATABASE_URL: .*percent-encode.*%2F/] as const,
  ),
  ...[
    'postgres://erp:x@one.test,two.test/erp?target_session_attrs=read-write',
    'postgres:///erp?host=one.test,two.test',
    'postgres:///erp?host=one.test%2C2.test',
  ].map((url) => [{ DATABASE_URL: url }, /^DATABASE_URL: names several hosts/] as const),
  ...['10.0.0.0/33', 'proxy.test', '10.0.0.0/8/8', ','].map(
    (proxies) =>
      [{ ADMIN_TOKEN: token, ADMIN_TRUSTED_PROXIES: proxies }, /^ADMIN_TRUSTED_PROXIES: /] as const,
  ),
  [{ ADMIN_HOST: '0.0.0.0' }, /ADMIN_TOKEN/],
  [{ SCHEDULE_PRUNE: 'often' }, /^SCHEDULE_PRUNE: /],
  [{ SCHEDULE_PUSH_OUTBOX: '0 3 * * *' }, /^SCHEDULE_PUSH_OUTBOX: must be a span/],
  [{ PUSH_MAX_AGE: '999999999d' }, /^PUSH_MAX_AGE: .*3650d/],
  [{ ADMIN_VIEWER_TOKEN: token }, /^ADMIN_VIEWER_TOKEN: requires/],
  [{ ADMIN_TOKEN: token, ADMIN_VIEWER_TOKEN: token }, /^ADMIN_VIEWER_TOKEN: must differ/],
  [{ ADMIN_TOKEN: ' '.repeat(40) }, /^ADMIN_TOKEN: holds blanks only/],
  [{ ADMIN_TOKEN: `${'x'.repeat(40)} ` }, /^ADMIN_TOKEN: must not begin or end with a blank/],
  [{ WAREHOUSE_PASSWORD: ' \t' }, /^WAREHOUSE_PASSWORD: holds blanks only/],
  [{ WAREHOUSE_USERNAME: '\u00a0' }, /^WAREHOUSE_USERNAME: holds blanks only/],
  [{ ADMIN_USER_HEADER: 'X-User' }, /^ADMIN_USER_HEADER: requires/],
  [{ ADMIN_TRUSTED_PROXIES: '127.0.0.1' }, /^ADMIN_TRUSTED_PROXIES: requires ADMIN_TOKEN/],
  [{ ADMIN_BASE_PATH: 'sync' }, /^ADMIN_BASE_PATH: must be/],
  [{ API_PORT: '1' }, /^API_PORT: requires API_TOKENS_FILE/],
  [{ ALERT_WEBHOOK_URL: 'ftp://hooks.example/T0/s3cret' }, /must begin with http/],
  [{ ALERT_WEBHOOK_URL: 'https://user:s3cret@hooks.example/' }, /must not hold a user name/],
  [{ ALERT_WEBHOOK_SECRET: 's3cret' }, /must be whsec_/],
  [{ ALERT_WEBHOOK_SECRET: `whsec_${'A'.repeat(20)}` }, /must be whsec_/],
  [{ NODE_EXTRA_CA_CERTS: '/none.pem' }, /^NODE_EXTRA_CA_CERTS: TLS: .*no such file/],
  [{ NODE_EXTRA_CA_CERTS: key }, /^NODE_EXTRA_CA_CERTS: TLS: .*PEM/],
  ...(
    [
      ['sslmode=verify', /sslmode=verify .*verify-full/],
      ['sslrootcert=/none.pem', /sslrootcert=.*no such file/],
      ['sslrootcert=system', /leave sslrootcert out/],
      [`sslrootcert=${key}`, /do not fit/],
      [`sslcert=${cert}`, /sslcert and sslkey belong together/],
      [`sslcert=${cert}&sslkey=${fixture('server-key')}`, /key values mismatch/],
    ] as const
  ).map(
    ([parameters, words]) =>
      [
        { DATABASE_URL: withParameters(parameters) },
        new RegExp(`^DATABASE_URL: TLS: .*${words.source}`),
      ] as const,
  ),
];

test.each(refused)('refuses %j, and quotes no secret', (env, words) => {
  const problems = readProblems({ ...base, ...env });
  expect(problems).toEqual([expect.stringMatching(words)]);
  expect(problems.join()).not.toContain('s3cret');
});

test('certificates are always checked: the variable that switches it off is refused', () => {
  expect(readProblems({ ...base, NODE_TLS_REJECT_UNAUTHORIZED: '0' })).toEqual([
    expect.stringMatching(/^NODE_TLS_REJECT_UNAUTHORIZED: .*NODE_EXTRA_CA_CERTS/),
  ]);
});

test.each<Record<string, string>>([
  { ADMIN_HOST: '0.0.0.0', ADMIN_TOKEN: token },
  { SCHEDULE_RECONCILE: '1d' },
  { DATABASE_URL: 'postgres://erp:a%2Cb@one.test/e,rp?application_name=a,b' },
  { DATABASE_URL: 'postgres:///erp?host=/var/run/postgresql' },
  { DATABASE_URL: 'postgres://erp:secret@/erp?host=/var/run/postgresql' },
  {
    DATABASE_URL: withParameters(
      `sslmode=verify-full&sslrootcert=${authority}&sslcert=${cert}&sslkey=${key}`,
    ),
    NODE_EXTRA_CA_CERTS: authority,
  },
])('accepts %j', (env) => expect(readProblems({ ...base, ...env })).toEqual([]));

test('trusted proxies are addresses and networks; anything else is not trusted', () => {
  const { ADMIN_TRUSTED_PROXIES: isTrusted } = readConfig(
    { database: false, clients: false },
    { ADMIN_TOKEN: token, ADMIN_TRUSTED_PROXIES: '127.0.0.1, 10.7.0.0/16, fd00::/8' },
  );
  const addresses = [
    '127.0.0.1',
    '::ffff:127.0.0.1',
    '10.7.2.3',
    '10.2.0.1',
    'fd12::1',
    '::1',
    '',
    'unknown',
    '10.7.2.3:80',
  ];
  expect(addresses.filter((address) => isTrusted?.(address))).toEqual([
    '127.0.0.1',
    '::ffff:127.0.0.1',
    '10.7.2.3',
    'fd12::1',
  ]);
  expect(isTrusted?.(undefined)).toBe(false);
});

test('each job polls the stream that config/jobs.ts states, and all streams are reconciled', () => {
  const polled = Object.entries(jobs).flatMap(([job, { stream }]) =>
    stream === undefined ? [] : [[job, stream.name]],
  );
  expect(Object.fromEntries(polled)).toEqual(polledStreams);
  expect(streams.map(({ name }) => name)).toEqual(Object.values(polledStreams));
});
