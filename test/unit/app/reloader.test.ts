import { expect, test } from 'vitest';
import { type Config, listSettingsFiles, readConfig } from '../../../config/env.ts';
import { describeSettingsChanges } from '../../../config/settings/changes.ts';
import { createLogger } from '../../../src/app/logging/create-logger.ts';
import { Reloader } from '../../../src/app/worker/reloader.ts';
import { SettingsWatch } from '../../../src/app/worker/settings-watch.ts';
import { useSettingsFolders } from '../../helpers/config/settings-folder.ts';
import { waitFor } from '../../helpers/wait.ts';

const makeFolder = useSettingsFolders();

/** Makes a reloader of one file, and a worker that records what it takes over. */
function setUp() {
  const folder = makeFolder();
  folder.settings({ LOOKBACK_DAYS: '1' });
  const env = { SETTINGS_FILE: folder.file('settings.env') };
  const read = () => readConfig({ database: false, clients: false }, env);
  const logged: string[] = [];
  const log = createLogger('info', {
    write: (line) => void logged.push((JSON.parse(line) as { event: string }).event),
  });
  const config = read();
  const source = { read, files: () => listSettingsFiles(env), watch: new SettingsWatch() };
  const taken: string[] = [];
  const worker = {
    change: async (_config: Config, changes: Parameters<typeof describeSettingsChanges>[0]): Promise<void> =>
      void taken.push(...describeSettingsChanges(changes)),
    noteSettings: () => undefined,
  };
  return { folder, config, reloader: new Reloader(config, source, log), logged, taken, worker };
}

test('a worker that starts takes over what changed during its start', async () => {
  const { folder, config, reloader, taken, worker } = setUp();
  folder.settings({ LOOKBACK_DAYS: '2' });
  reloader.ask();
  await waitFor('the change without a worker', () => reloader.config.LOOKBACK_DAYS === 2);
  reloader.attach(worker, config);
  await waitFor('the worker', () => taken.length > 0);
  expect(taken).toEqual(['LOOKBACK_DAYS 1 -> 2']);
  expect(reloader.config.LOOKBACK_DAYS).toBe(2);
});

test('what the database does not take is tried again, with what changed meanwhile', async () => {
  const { folder, config, reloader, taken, worker, logged } = setUp();
  let isAway = true;
  const change: typeof worker.change = (next, changes) =>
    isAway ? Promise.reject(new Error('the database is away')) : worker.change(next, changes);
  reloader.attach({ ...worker, change }, config);
  folder.settings({ LOOKBACK_DAYS: '2', ADMIN_PORT: '1' });
  reloader.ask();
  await waitFor('a failure', () => logged.includes('settings_waiting'));
  expect(reloader.config.LOOKBACK_DAYS).toBe(1);
  folder.settings({ LOOKBACK_DAYS: '3', ADMIN_PORT: '1' });
  isAway = false;
  reloader.start();
  try {
    await waitFor('the worker', () => taken.includes('LOOKBACK_DAYS 1 -> 3') || taken.includes('LOOKBACK_DAYS 2 -> 3'));
  } finally {
    reloader.stop();
  }
  expect(reloader.config).toMatchObject({ LOOKBACK_DAYS: 3, ADMIN_PORT: 8080 });
  expect(reloader.outcome.restart).toEqual(['ADMIN_PORT']);
  folder.settings({ LOOKBACK_DAYS: '3' });
  reloader.ask();
  await waitFor('no restart', () => reloader.outcome.restart.length === 0);
  expect(logged.filter((event) => event === 'settings_need_restart')).toHaveLength(1);
});
