import type { WorkerSettings } from '../../erp/runs/worker-settings.ts';
import { createProblem, type Problem } from './problem.ts';

type Outcome = Pick<WorkerSettings, 'worker' | 'refused' | 'restart'>;

/** Finds what keeps workers from taking over changed settings. */
export function findSettingsProblems(workers: readonly Outcome[]): Problem[] {
  const refusing = workers.filter(({ refused }) => refused.length > 0);
  const waiting = workers.filter(({ restart }) => restart.length > 0);
  const unique = (texts: readonly string[]) => [...new Set(texts)];
  return [
    ...(refusing.length === 0
      ? []
      : [
          createSettingsProblem(
            'settings_refused',
            refusing,
            `changed files of settings are wrong: ${unique(refusing.flatMap(({ refused }) => refused)).join('; ')}`,
            'correct them; until then, workers keep their settings, and one that restarts does not start',
          ),
        ]),
    ...(waiting.length === 0
      ? []
      : [
          createSettingsProblem(
            'settings_restart',
            waiting,
            `changed settings wait for a restart: ${unique(waiting.flatMap(({ restart }) => restart)).join(', ')}`,
            'restart the workers one by one',
          ),
        ]),
  ];
}

function createSettingsProblem(
  code: 'settings_refused' | 'settings_restart',
  workers: readonly Outcome[],
  text: string,
  remedy: string,
): Problem {
  const subject = `settings of ${workers.map(({ worker }) => worker).join(', ')}`;
  // Its identity must not depend on how many workers have noticed it so far.
  return { ...createProblem(code, 'warn', { client: null, part: 'settings' }, `${subject}: ${text}`, remedy) };
}
