import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { readConfig, secretNames, variableNames } from '../../../config/env.ts';
import manifest from '../../../package.json' with { type: 'json' };
import { createCli } from '../../../src/app/program.ts';
import { readEntrypoint } from '../../helpers/config/dockerfile.ts';
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
    expect(containers.map(({ args }) => args)).toEqual([services.worker?.command, services.migrate?.command]);
    // A command would replace the entry point, which has the options of Node.
    for (const { command } of containers) expect(command).toBeUndefined();
  });

  test('names the image of the worker, with the version of the package', () => {
    const [{ name, newTag } = { name: '', newTag: '' }] = readKustomization('release').images ?? [];
    expect([name, newTag]).toEqual(['fulfilment-sync', manifest.version]);
    for (const container of containers) expect(container.image).toBe(name);
    for (const user of ['migrate', 'worker']) expect(readKustomization(user).components).toEqual(['../release']);
  });

  test('sets variables that exist, to values that a worker accepts', () => {
    const known: string[] = [...variableNames, ...secretNames.map((name) => `${name}_FILE`)];
    const names = [...environment.map(({ name }) => name), ...settings.flatMap((set) => Object.keys(set))];
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
        'clients.json': '[{"key":"a","baseUrl":"https://a.example.com","username":"a","password":"a"}]',
      };
      for (const [name, value] of Object.entries(secrets)) writeFileSync(join(place, name), value);
      const mountPath = worker?.volumeMounts?.find(({ name }) => name === 'secrets')?.mountPath ?? '';
      const clients = settings.map((set) => {
        const all = {
          ...set,
          ...Object.fromEntries((worker?.env ?? []).map(({ name, value }) => [name, value ?? ''])),
        };
        const moved = Object.entries(all).map(([name, value]) => [name, value.replace(mountPath, place)]);
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
      for (const { name, value } of env) if (name.endsWith('_FILE')) expect(value).toContain(`${mount?.mountPath}/`);
    }
    expect(job?.template.spec?.volumes?.[0]?.secret?.items).toEqual([{ key: 'database-url', path: 'database-url' }]);
  });

  test('asks /livez to restart a worker and /readyz for readiness, at the port of the admin server', () => {
    const port = readConfig({ database: false, clients: false }, {}).ADMIN_PORT;
    expect(worker?.ports).toEqual([{ name: 'admin', containerPort: port }]);
    expect(worker?.env).toContainEqual({ name: 'ADMIN_PORT', value: String(port) });
    expect(worker?.livenessProbe?.httpGet).toEqual({ path: '/livez', port: 'admin' });
    expect(worker?.readinessProbe?.httpGet).toEqual({ path: '/readyz', port: 'admin' });
    for (const path of ['/livez', '/readyz']) expect(read('src/app/admin/probes.ts')).toContain(`'${path}'`);
  });

  test('gives the memory and the time to stop that docker-compose.yml and docs/production.md name', () => {
    expect([services.worker?.mem_limit, services.worker?.stop_grace_period]).toEqual(['1g', '30s']);
    for (const { resources } of containers) expect(resources?.limits).toEqual({ memory: '1Gi' });
    expect(read('docs/production.md')).toContain('(1 GB is enough): the heap takes at most 60 % of it');
    expect(readEntrypoint('worker')).toContain('--max-old-space-size-percentage=60');
    expect(deployment?.template.spec?.terminationGracePeriodSeconds).toBe(30);
    expect(read('docs/production.md')).toContain('give it 30');
  });

  test('gives the pods no rights, and a file system that is read-only', () => {
    for (const template of templates) {
      expect(template?.spec).toMatchObject({
        automountServiceAccountToken: false,
        securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
      });
      expect(template?.spec?.hostNetwork).toBeUndefined();
    }
    for (const { securityContext } of containers)
      expect(securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
  });

  test('lets only the monitoring connect to a worker, and a worker only to five ports', () => {
    const policy = findManifest('NetworkPolicy').spec;
    const migration = findManifest('NetworkPolicy', 'fulfilment-sync-migrate').spec;
    for (const spec of [policy, migration]) expect(spec?.policyTypes).toEqual(['Ingress', 'Egress']);
    expect(policy?.ingress).toEqual([
      {
        from: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }],
        ports: [{ port: worker?.ports?.[0]?.containerPort }],
      },
    ]);
    expect(migration?.ingress).toBeUndefined();
    const listPorts = (spec: typeof policy) => spec?.egress?.flatMap(({ ports = [] }) => ports.map(({ port }) => port));
    expect([policy, migration].map(listPorts)).toEqual([
      [53, 53, 5432, 6379, 443],
      [53, 53, 5432],
    ]);
  });

  test('selects its pods by the labels that they have', () => {
    const budget = findManifest('PodDisruptionBudget').spec;
    const selectors = [
      ...[deployment?.selector, budget?.selector, findManifest('NetworkPolicy').spec?.podSelector],
      deployment?.template.spec?.topologySpreadConstraints?.[0]?.labelSelector,
    ];
    for (const selector of selectors) expect(selector?.matchLabels).toEqual(deployment?.template.metadata?.labels);
    const migration = findManifest('NetworkPolicy', 'fulfilment-sync-migrate').spec?.podSelector;
    expect(migration?.matchLabels).toEqual(job?.template.metadata?.labels);
    expect(migration?.matchLabels).not.toEqual(deployment?.template.metadata?.labels);
  });
});
