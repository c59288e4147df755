import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { secretNames, variableNames } from '../../../config/env.ts';
import { createCli } from '../../../src/cli/program.ts';
import { readEntrypoint } from '../../helpers/config/dockerfile.ts';

const commandLine = await createCli();

const root = fileURLToPath(new URL('../../..', import.meta.url));
const folder = join(root, 'deploy/systemd');
const read = (name: string) => readFileSync(join(folder, name), 'utf8');
const units = ['fulfilment-sync.service', 'fulfilment-sync-migrate.service'];
const dropIn = 'several-clients.conf';
/** Returns the values of a key, in their order. */
const readKey = (file: string, key: string) =>
  [...read(file).matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(([, value]) => value ?? '');
const program = '/usr/local/bin/fulfilment-sync';

/**
 * Returns why the units cannot be checked here; null if they can be. Older ones do not know `%d`.
 */
function findObstacle(): string | null {
  const { stdout } = spawnSync('systemd-analyze', ['--version'], { encoding: 'utf8' });
  const version = Number(/^systemd (\d+)/.exec(stdout ?? '')?.[1] ?? 0);
  if (version === 0) return 'systemd-analyze is not installed';
  return version < 251 ? `systemd ${version} is older than 251` : null;
}
const obstacle = findObstacle();

describe('deploy/systemd', () => {
  test('has units that systemd accepts without a warning, also with the drop-in', ({ skip }) => {
    skip(obstacle !== null, obstacle ?? undefined);
    const place = mkdtempSync(join(tmpdir(), 'fulfilment-sync-units-'));
    try {
      // systemd asks if the program exists. Node does; its path may have spaces.
      for (const name of units)
        writeFileSync(
          join(place, name),
          read(name).replaceAll(program, () => `"${process.execPath}"`),
        );
      mkdirSync(join(place, 'fulfilment-sync.service.d'));
      cpSync(join(folder, dropIn), join(place, 'fulfilment-sync.service.d', dropIn));
      const paths = units.map((name) => join(place, name));
      const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', ...paths], {
        encoding: 'utf8',
      });
      const warnings = `${stdout}${stderr}`
        .split('\n')
        .filter((line) => line.includes('fulfilment-sync'));
      expect(warnings).toEqual([]);
      expect(status).toBe(0);
    } finally {
      rmSync(place, { recursive: true });
    }
  });

  test('has units whose exposure is at most 1.5 of 10', ({ skip }) => {
    skip(obstacle !== null, obstacle ?? undefined);
    for (const name of units) {
      const options = [
        'security',
        '--offline=true',
        '--threshold=15',
        '--no-pager',
        join(folder, name),
      ];
      expect(execFileSync('systemd-analyze', options, { encoding: 'utf8' })).toContain(
        'Overall exposure level',
      );
    }
  });

  test('runs commands that exist, with the options of Node that the image has', () => {
    const [worker = '', migrate = ''] = units;
    expect(readKey(worker, 'ExecStart')).toEqual([`${program} worker`]);
    expect(readKey(migrate, 'ExecStart')).toEqual([`${program} migrate --wait 60`]);
    const { commands } = commandLine;
    expect(commands.map((command) => command.name())).toEqual(
      expect.arrayContaining(['worker', 'migrate']),
    );
    const options = commands
      .find((command) => command.name() === 'migrate')
      ?.options.map(({ long }) => long);
    expect(options).toContain('--wait');
    const flags = readEntrypoint('worker').filter((word) => word.startsWith('--'));
    for (const name of units)
      expect(readKey(name, 'Environment')).toContain(`"NODE_OPTIONS=${flags.join(' ')}"`);
  });

  test('sets variables that exist, and each file that one names is a credential', () => {
    const known: string[] = [...variableNames, ...secretNames.map((name) => `${name}_FILE`)];
    for (const name of [...units, dropIn]) {
      const credentials = readKey(name, 'LoadCredential').filter((value) => value !== '');
      const files = readKey(name, 'Environment').flatMap((line) => {
        if (line.startsWith('"NODE_OPTIONS=')) return [];
        const [variable = '', value = ''] = line.split('=');
        expect(known).toContain(variable);
        return value === '' ? [] : [value];
      });
      // The drop-in keeps the variable of the database.
      const named = name === dropIn ? ['%d/database-url', ...files] : files;
      expect(credentials).toEqual(
        named.map((value) =>
          value.replace(
            /^%d\/(.*)$/,
            (_all, file: string) => `${file}:/etc/fulfilment-sync/${file}`,
          ),
        ),
      );
    }
  });
});
