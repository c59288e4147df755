import { setTimeout as wait } from 'node:timers/promises';
import { defaultTimeZone } from '../../../config/files.ts';
import { DocumentError } from '../../sandbox/document.ts';
import type { ScenarioPlayer } from '../../sandbox/scenario/player.ts';
import { readScenario } from '../../sandbox/scenario/read-scenario.ts';
import type { Scenario } from '../../sandbox/scenario/schema.ts';
import { type ChosenSettings, readSettingsFile } from '../../sandbox/settings-file.ts';
import type { World } from '../../sandbox/world.ts';
import { Zone } from '../../sandbox/zone.ts';
import { formatTable, toStateLook } from '../terminal/table.ts';
import { UsageError } from './usage.ts';

const playEveryMs = 100;

/** @throws UsageError if `read` finds a file that is wrong */
function acceptDocument<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof DocumentError ? new UsageError(error.message) : error;
  }
}

/**
 * Reads the settings file of the sandbox, if one is given.
 * @throws UsageError if the file is wrong
 */
export function openSettings(file: string | undefined, clients: readonly string[]): ChosenSettings | undefined {
  return file === undefined ? undefined : acceptDocument(() => readSettingsFile(file, clients));
}

/**
 * Reads the scenario of the sandbox, if one is given.
 * @throws UsageError if the scenario is wrong, or if another option does not go with it
 */
export function openScenario(options: {
  readonly scenario?: string;
  readonly state?: string;
  readonly exit?: boolean;
}): Scenario | null {
  const { scenario, state, exit = false } = options;
  if (scenario === undefined && exit) throw new UsageError('--exit goes with --scenario');
  if (scenario === undefined) return null;
  if (state !== undefined) throw new UsageError('--scenario does not go with --state: a scenario begins anew');
  return acceptDocument(() => readScenario(scenario, new Zone(defaultTimeZone)));
}

/**
 * Plays a scenario until it is over or `stop` aborts. Prints its checks at its end.
 * @returns whether it is over and all checks are ok
 */
export async function playScenario(player: ScenarioPlayer, world: World, stop: AbortSignal): Promise<boolean> {
  while (!player.isOver && !stop.aborted) {
    world.play();
    await wait(playEveryMs);
  }
  if (!player.isOver) return false;
  process.stdout.write(formatResults(player));
  return player.results.every(({ ok }) => ok);
}

function formatResults({ name, results }: ScenarioPlayer): string {
  const failed = results.filter(({ ok }) => !ok).length;
  const rows = results.map(({ step, what, expected, actual, ok }) => [
    String(step),
    what,
    expected,
    actual,
    ok ? 'ok' : 'failed',
  ]);
  const table = formatTable(['step', 'check', 'expected', 'actual', 'result'], rows, { look: toStateLook });
  return `Scenario ${name} is over: ${failed === 0 ? 'all checks are ok' : `${failed} of ${results.length} checks failed`}.\n${table}\n`;
}
