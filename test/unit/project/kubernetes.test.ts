import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { readConfig, secretNames, variableNames } from '../../../config/env.ts';
import manifest from '../../../package.json' with { type: 'json' };
import { createCli } from '../../../src/cli/program.ts';
import { findManifest, readKustomization, readSettings } from '../../helpers/config/kubernetes.ts';

const commandLine = await createCli();

const read = (name: string) => readFileSync(new URL(`../../../${name}`, import.meta.url), 'utf8');
const { services } = parse(read('docker-compose.yml'), { merge: true }) as {
  services: Record<string, { mem_limit: string; stop_grace_period: string; command: string[] }>;
};
const deployment = findManifest('Deployment').spec;
const job = findManifest('Job', 'fulfilment-sync-migrate').spec;
const templates = [deployment?.template, job?.template];
const containers = templates.flatMap((template) => template?.spec?.containers ?? []);
const [worker] = containers;
const environment = containers.flatMap(({ env = [] }) => env);
const settings = ['worker', 'several-clients'].map(readSettings);

describe('deploy/kubernetes', () => {
  test('runs the commands of docker-compose.yml by the entry point of the image', () => {
    const commands = commandLine.commands.map((command) => command.name());
    for (const { args } of containers) expect(commands).toContain(args?.[0]);
    expect(containers.map(({ args }) => args)).toEqual([
      services.worker?.command,
      services.migrate?.command,
    ]);
    // A command would replace the entry point, which has the options of Node.
    for (const { command } of containers) expect(command).toBeUndefined();
  });

  test('names the image of the worker, with the version of the package', () => {
    const [{ name, newTag } = { name: '', newTag: '' }] = readKustomization('release').images ?? [];
    expect([name, newTag]).toEqual(['fulfilment-sync', manifest.version]);
    for (const container of containers) expect(container.image).toBe(name);
    for (const user of ['migrate', 'worker'])
      expect(readKustomization(user).components).toEqual(['../release']);
  });

  test('sets variables that exist, to values that a worker accepts', () => {
    const known: string[] = [...variableNames, ...secretNames.map((name) => `${name}_FILE`)];
    const names = [
      ...environment.map(({ name }) => name),
      ...settings.flatMap((set) => Object.keys(set)),
    ];
    expect(names.length).toBeGreaterThan(10);
    for (const name of names) expect(known).toContain(name);
    const place = mkdtempSync(join(tmpdir(), 'fulfilment-sync-secrets-'));
    try {
      const secrets = {
        'database-url': 'postgres://fulfilment:secret@postgres:5432/erp',
        'redis-url': 'redis://:secret@redis:6379',
        'warehouse-password': 'secret',
        'admin-token': 'a'.repeat(32),
        'admin-viewer-token': 'b'.repeat(32),
        'clients.json':
          '[{"key":"a","baseUrl":"https://a.example.com","username":"a","password":"a"}]',
      };
      for (const [name, value] of Object.entries(secrets)) writeFileSync(join(place, name), value);
      const mountPath =
        worker?.volumeMounts?.find(({ name }) => name === 'secrets')?.mountPath ?? '';
      const clients = settings.map((set) => {
        const all = {
          ...set,
          ...Object.fromEntries((worker?.env ?? []).map(({ name, value }) => [name, value ?? ''])),
        };
        const moved = Object.entries(all).map(([name, value]) => [
          name,
          value.replace(mountPath, place),
        ]);
        return readConfig({ database: true, clients: true }, Object.fromEntries(moved)).clients;
      });
      expect(clients.map((set) => set.map(({ key }) => key))).toEqual([['default'], ['a']]);
    } finally {
      rmSync(place, { recursive: true });
    }
  });

  test('contains no password: variables name files of a Secret, of which the migration gets one', () => {
    for (const { name } of environment) expect(secretNames).not.toContain(name);
    for (const set of settings) for (const name of secretNames) expect(set[name]).toBeUndefined();
    for (const { env = [], volumeMounts = [] } of containers) {
      const mount = volumeMounts.find(({ name }) => name === 'secrets');
      expect(mount?.readOnly).toBe(true);
      for (const { name, value } of env)
        if (name.endsWith('_FILE')) expect(value).toContain(`${mount?.mountPath}/`);
    }
    expect(job?.template.spec?.volumes?.[0]?.secret?.items).toEqual([
      { key: 'database-url', path: 'database-url' },
    ]);
  });
});
