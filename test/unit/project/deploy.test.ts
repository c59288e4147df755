import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { secretNames, variableNames } from '../../../config/env.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const read = (name: string) => readFileSync(join(root, name), 'utf8');
let place = '';
beforeEach(() => {
  place = mkdtempSync(join(tmpdir(), 'fulfilment-sync-deploy-'));
});
afterEach(() => rmSync(place, { recursive: true }));

const known = new Set<string>([...variableNames, ...secretNames.map((name) => `${name}_FILE`)]);

const manifests = globSync('deploy/kubernetes/*/*.yaml', { cwd: root });

test('create-secrets.sh makes secrets and settings once, the secrets different in each place', () => {
  const make = (cwd: string) => {
    execFileSync('sh', [join(root, 'deploy/create-secrets.sh')], { cwd });
    const folder = join(cwd, 'secrets');
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    const settings = parseEnv(readFileSync(join(cwd, 'settings', 'worker.env'), 'utf8'));
    expect(Object.keys(settings).filter((name) => !known.has(name))).toEqual([]);
    return Object.fromEntries(
      readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')]),
    );
  };
  const folders = ['a', 'b'].map((name) => join(place, name));
  for (const folder of folders) mkdirSync(folder);
  const [one = {}, other = {}] = folders.map(make);
  const [compose] = parseAllDocuments(read('docker-compose.yml')).map((document) =>
    document.toJS(),
  );
  expect(Object.keys(one)).toEqual(Object.keys(compose.secrets).sort());
  expect(one['database-url']).toBe(
    `postgres://fulfilment:${one['fulfilment-password']}@postgres:5432/erp`,
  );
  expect(one['redis-url']).toBe(`redis://:${one['redis-password']}@redis:6379`);
  expect(Object.keys(one).filter((name) => one[name] === other[name])).toEqual([
    'alert-webhook-url',
    'warehouse-password',
  ]);
  expect(make(folders[0] ?? '')).toEqual(one);
});

// The types know every member, so that they find a name that is misspelt.
test('the manifests have no member that Kubernetes does not know', () => {
  symlinkSync(join(root, 'node_modules'), join(place, 'node_modules'));
  const documents = manifests
    .filter((file) => !file.endsWith('kustomization.yaml'))
    .flatMap((file) => parseAllDocuments(read(file)).map((document) => document.toJS()));
  expect(documents.length).toBeGreaterThan(3);
  const lines = documents.map(({ apiVersion, kind }, index) => {
    const type = `import('kubernetes-models/${apiVersion}/${kind}').I${kind}`;
    return `export const manifest${index}: ${type} = ${JSON.stringify(documents[index])};`;
  });
  writeFileSync(join(place, 'manifests.mts'), lines.join('\n'));
  const options = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--types', ''];
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const { stdout } = spawnSync(process.execPath, [tsc, ...options, 'manifests.mts'], {
    cwd: place,
    encoding: 'utf8',
  });
  expect(stdout).toBe('');
});

test('systemd accepts the units and the drop-in, and their exposure is at most 1.5 of 10', ({
  skip,
}) => {
  const { stdout: version } = spawnSync('systemd-analyze', ['--version'], { encoding: 'utf8' });
  // Older ones do not know `%d`.
  skip(Number(/^systemd (\d+)/.exec(version ?? '')?.[1] ?? 0) < 251, 'no systemd-analyze 251');
  const units = ['fulfilment-sync.service', 'fulfilment-sync-migrate.service'].map((name) =>
    join(place, name),
  );
  // systemd asks if the program exists. Node does; its path may have spaces.
  for (const unit of units) {
    const text = read(`deploy/systemd/${unit.slice(place.length + 1)}`);
    writeFileSync(unit, text.replaceAll('/usr/local/bin/fulfilment-sync', `"${process.execPath}"`));
  }
  cpSync(
    join(root, 'deploy/systemd/several-clients.conf'),
    join(place, 'fulfilment-sync.service.d/several-clients.conf'),
  );
  const analyze = (...args: string[]) => spawnSync('systemd-analyze', args, { encoding: 'utf8' });
  const verified = analyze('verify', ...units);
  const said = `${verified.stdout}${verified.stderr}`.split('\n');
  expect(said.filter((line) => line.includes('fulfilment-sync'))).toEqual([]);
  expect(verified.status).toBe(0);
  for (const unit of units)
    expect(analyze('security', '--offline=true', '--threshold=15', '--no-pager', unit).status).toBe(
      0,
    );
});
