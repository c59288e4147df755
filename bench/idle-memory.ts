/**
 * Measures the resident memory of an idle worker of the bundle, with the default schedules, and with
 * what its first line gives to Node: `npm run --silent bench:idle-memory -- [SECONDS]`.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { buildBundle } from '../test/helpers/processes/bundle.ts';
import { printLine, readResidentMb, saveResults } from './stand/measure.ts';
import { endProcess, openStand } from './stand/stand.ts';

const seconds = Number(process.argv[2] ?? 30);
const { program, remove } = await buildBundle();
const [, settings = '', flags = ''] =
  /^#!\S+ -S (.+) node (.*) --/.exec(readFileSync(program, 'utf8')) ?? [];
const malloc = Object.fromEntries(settings.split(' ').map((setting) => setting.split('=')));
const stand = await openStand();
try {
  const worker = await stand.startWorker({ NODE_OPTIONS: flags, ...malloc }, undefined, program);
  const samples: number[] = [];
  for (let second = 0; second < seconds; second += 2) {
    await wait(2_000);
    samples.push(Math.round(readResidentMb(worker.pid)));
  }
  printLine(`resident memory of an idle worker (${settings} ${flags}): ${samples.join(', ')} MB`);
  saveResults('idle-memory', { settings, flags, seconds, megabytes: samples });
  await endProcess(worker);
} finally {
  await stand.stop();
  remove();
}
