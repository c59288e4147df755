import type { Config } from '../../../config/env.ts';
import { toScheduleVariable } from '../../../config/jobs.ts';
import {
  describeSettingsChanges,
  findSettingsChanges,
  type SettingsChanges,
} from '../../../config/settings/changes.ts';
import { type SettingsRecord, toSettingsRecord } from '../../../config/settings/record.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { readWorkerSettings, type WorkerSettings } from '../../erp/runs/worker-settings.ts';
import { type Finding, ok, runCheck, warn } from './finding.ts';

const check = 'reload';
const takenSoon = 'nothing, if the files are meant: workers take them over within seconds, or at once on SIGHUP';

/** Compares the settings of this process with those that the running workers use, and says what would change. */
export function checkReload(db: Database, config: Config): Promise<readonly Finding[]> {
  return runCheck(check, 'run: fulfilment-sync migrate', async () => {
    const workers = await readWorkerSettings(db);
    if (workers.length === 0) return [ok(check, 'no worker is running')];
    const record = toSettingsRecord(config, 'stored');
    const findings = [...findRefused(workers), ...findDifferent(workers, record)];
    const count = workers.length === 1 ? 'the running worker uses' : `${workers.length} running workers use`;
    return findings.length > 0 ? findings : [ok(check, `${count} these settings; nothing would change`)];
  });
}

/** Files that were wrong when a worker read them last. This process could read its settings. */
function findRefused(workers: readonly WorkerSettings[]): Finding[] {
  const refusing = workers.filter(({ refused }) => refused.length > 0);
  const remedy = 'if they are corrected by now, the workers take them over within seconds; else compare their settings';
  return refusing.map(({ worker, refused }) =>
    warn(check, `${worker} refused changed files and keeps its settings: ${refused.join('; ')}`, remedy),
  );
}

/** Groups the workers for which the same would change. */
function findDifferent(workers: readonly WorkerSettings[], record: SettingsRecord): Finding[] {
  const different = workers.flatMap(({ worker, settings }) => {
    const changes = findSettingsChanges(settings, record);
    const environment = new Set([...settings.environment, ...record.environment]);
    return [
      ...toDifference(worker, describeSettingsChanges(changes), 'would change', describeRemedy(changes, environment)),
      ...toDifference(worker, changes.restart, 'would change only with a restart', 'restart the workers one by one'),
    ];
  });
  return [...Map.groupBy(different, ({ text, remedy }) => `${text}\n${remedy}`).values()].map((group) => {
    const names = group.map(({ worker }) => worker).join(', ');
    return warn(check, `${names}: ${group[0]?.text}`, group[0]?.remedy ?? takenSoon);
  });
}

const toDifference = (worker: string, words: readonly string[], will: string, remedy: string) =>
  words.length === 0 ? [] : [{ worker, text: `${will}: ${words.join('; ')}`, remedy }];

/** A worker cannot see that its environment has changed. */
function describeRemedy(
  { values, addedClients, removedClients, changedClients }: SettingsChanges,
  environment: ReadonlySet<string>,
): string {
  const fixed = values
    .map(({ name }) => name)
    .filter((name) => environment.has(name) || environment.has(toScheduleVariable(name)));
  const changesClients = addedClients.length + removedClients.length + changedClients.length > 0;
  const ofClient = ['WAREHOUSE_BASE_URL', 'WAREHOUSE_USERNAME', 'WAREHOUSE_PASSWORD', 'WAREHOUSE_TIME_ZONE'];
  if (changesClients) fixed.push(...ofClient.filter((name) => environment.has(name)));
  if (fixed.length === 0) return takenSoon;
  return `the environment sets ${fixed.join(', ')}: restart the workers, or set them in SETTINGS_FILE instead`;
}
