import { expect, test } from 'vitest';
import { ConfigError } from '../../../config/config-error.ts';
import { listSettingsFiles, readConfig, replaceClients } from '../../../config/env.ts';
import { describeSettingsChanges, findSettingsChanges } from '../../../config/settings/changes.ts';
import { toSettingsRecord } from '../../../config/settings/record.ts';
import { SettingsWatch } from '../../../src/app/worker/settings-watch.ts';
import { useSettingsFolders } from '../../helpers/config/settings-folder.ts';

const makeFolder = useSettingsFolders();
const needs = { database: true, clients: true };
const base = {
  DATABASE_URL: 'postgres://user:s3cret@localhost/erp',
  WAREHOUSE_BASE_URL: 'https://x.example',
  WAREHOUSE_USERNAME: 'shop',
  WAREHOUSE_PASSWORD: 's3cret',
};

/** Returns the problems of a SETTINGS_FILE with this content. */
function findProblems(content: string, env: Record<string, string> = {}): readonly string[] {
  const folder = makeFolder();
  folder.replace('settings.env', content);
  try {
    readConfig(needs, { ...base, SETTINGS_FILE: folder.file('settings.env'), ...env });
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

test('SETTINGS_FILE has a setting on each line, with comments, quotes and empty values', () => {
  const folder = makeFolder();
  const lines = [
    '# 1',
    '',
    ' export LOOKBACK_DAYS = 9 ',
    "SCHEDULE_PRUNE='0 3 * * *'",
    'SCHEDULE_RECONCILE=*/5 * * * *',
  ];
  folder.replace('settings.env', [...lines, 'ADMIN_PORT=', 'WAREHOUSE_TIME_ZONE="UTC"\r', 'NO_PROXY=a#b'].join('\n'));
  const config = readConfig(needs, { ...base, SETTINGS_FILE: folder.file('settings.env') });
  expect(config).toMatchObject({ LOOKBACK_DAYS: 9, ADMIN_PORT: 8080, NO_PROXY: 'a#b' });
  expect(config.schedules.prune).toEqual({ kind: 'cron', pattern: '0 3 * * *' });
  expect(config.schedules.reconcile).toEqual({ kind: 'cron', pattern: '*/5 * * * *' });
  expect(config.clients[0]?.timeZone).toBe('UTC');
  expect(config.fixedNames.toSorted()).toEqual([...Object.keys(base), 'SETTINGS_FILE'].sort());
});

test.each([
  ['a line that is no setting', 'LOOKBACK_DAYS 9', 'SETTINGS_FILE: line 1: is not NAME=value'],
  [
    'an unknown name',
    '\nLOOK_BACK_DAYS=9',
    'SETTINGS_FILE: line 2: there is no setting LOOK_BACK_DAYS that may stand in a file',
  ],
  [
    'its own name',
    'SETTINGS_FILE=x',
    'SETTINGS_FILE: line 1: there is no setting SETTINGS_FILE that may stand in a file',
  ],
  ['an unknown job', 'SCHEDULE_PULL=1m', expect.stringMatching(/^SCHEDULE_PULL: is not the schedule of a job/)],
  [
    'a setting twice',
    'LOOKBACK_DAYS=9\nLOOKBACK_DAYS=8',
    'SETTINGS_FILE: line 2: LOOKBACK_DAYS is set a second time; keep one',
  ],
  ['an open quote', 'ADMIN_HOST="x', 'SETTINGS_FILE: line 1: ADMIN_HOST: its quotes do not match'],
  [
    'a comment behind a value',
    'LOOKBACK_DAYS=9 # nine',
    expect.stringMatching(/^SETTINGS_FILE: line 1: LOOKBACK_DAYS: put its comment/),
  ],
  [
    'a value of the environment',
    'WAREHOUSE_PASSWORD=z',
    'WAREHOUSE_PASSWORD: is set in the environment and in SETTINGS_FILE; keep one',
  ],
  ['a wrong value', 'PUSH_MAX_AGE=long', expect.stringMatching(/^PUSH_MAX_AGE: must be a span/)],
])('refuses %s, by its name and without its value', (_what, content, problem) => {
  const problems = findProblems(content);
  expect(problems).toContainEqual(problem);
  expect(problems.join()).not.toMatch(/long|nine|"x/);
});

test('refuses a file that is not there', () => {
  expect(findProblems('', { SETTINGS_FILE: '/nowhere/settings.env' })).toEqual([
    'SETTINGS_FILE: /nowhere/settings.env cannot be read: ENOENT',
  ]);
});

test('a service that replaces the clients also replaces those of the file', () => {
  const folder = makeFolder();
  folder.settings({ ...base, LOOKBACK_DAYS: '9', WAREHOUSE_CLIENTS_FILE: 'elsewhere' });
  const service = { baseUrl: 'https://y.example', username: 'other', passwordFile: undefined };
  const config = readConfig(needs, replaceClients(service, { SETTINGS_FILE: folder.file('settings.env') }));
  expect(config).toMatchObject({ LOOKBACK_DAYS: 9, clients: [{ key: 'default', username: 'other' }] });
});

test('a record tells what differs, and holds no secret', () => {
  const folder = makeFolder();
  const url = new URL('https://x.example');
  const read = (env: Record<string, string>) => {
    const given = { DATABASE_URL: base.DATABASE_URL, WAREHOUSE_CLIENTS_FILE: folder.file('clients.json'), ...env };
    return toSettingsRecord(readConfig(needs, given), 'stored');
  };
  folder.clients(url, 'constructor', 's3cret');
  const before = read({ HTTPS_PROXY: 'http://a:s3cret@proxy', ADMIN_TOKEN: 's3cret'.repeat(8), PUSH_MAX_AGE: '72h' });
  expect(JSON.stringify({ ...before, clients: Object.values(before.clients) })).not.toContain('s3cret');
  const same = read({ HTTPS_PROXY: 'http://a:s3cret@proxy', ADMIN_TOKEN: 's3cret'.repeat(8), ADMIN_PORT: '8080' });
  const none = { addedClients: [], removedClients: [], changedClients: [], values: [], restart: [] };
  expect(findSettingsChanges(before, JSON.parse(JSON.stringify(same)))).toEqual(none);

  const client = { key: 'constructor', baseUrl: 'https://y.example', username: 'a', password: 'b', timeZone: 'UTC' };
  folder.replace(
    'clients.json',
    JSON.stringify(
      [client, { ...client, key: 'toString', username: 'c' }].map((one) => ({ ...one, key: one.key.toLowerCase() })),
    ),
  );
  const after = read({
    SCHEDULE_PUSH_OUTBOX: 'off',
    SCHEDULE_PRUNE: '0 3 * * *',
    PERSONAL_DATA_DAYS: '90',
    DATABASE_URL: 'postgres://b/c',
    ADMIN_TRUSTED_PROXIES: '::1',
  });
  const changes = findSettingsChanges(before, after);
  expect(describeSettingsChanges(changes)).toEqual([
    'client tostring added',
    'client s3cret removed',
    'account and password and time zone of client constructor',
    'prune 1d -> 0 3 * * *',
    'push-outbox 15s -> off',
    'PERSONAL_DATA_DAYS unset -> 90',
  ]);
  expect(changes.restart.toSorted()).toEqual(['ADMIN_TOKEN', 'ADMIN_TRUSTED_PROXIES', 'DATABASE_URL', 'HTTPS_PROXY']);
});

test('every file of the settings is watched, also what a wrong file names', async () => {
  const folder = makeFolder();
  folder.replace('clients.json', `[{"key": "A", "passwordFile": ${JSON.stringify(folder.file('password'))}}, 7]`);
  folder.settings({ WAREHOUSE_CLIENTS_FILE: folder.file('clients.json'), ADMIN_TOKEN_FILE: folder.file('token') });
  const files = listSettingsFiles({ SETTINGS_FILE: folder.file('settings.env') });
  expect(files.toSorted()).toEqual(
    ['clients.json', 'password', 'settings.env', 'token'].map((name) => folder.file(name)),
  );
  const watch = new SettingsWatch();
  await watch.remember(files);
  expect(await watch.hasChanged()).toBe(false);
  folder.replace('password', 'x');
  // The writing may not be over.
  expect(await watch.hasChanged()).toBe(false);
  expect(await watch.hasChanged()).toBe(true);
  await watch.remember(files);
  expect(await watch.hasChanged()).toBe(false);
});
