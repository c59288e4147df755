import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { secretNames, variableNames } from '../../../config/env.ts';
import { jobNames, pushJob } from '../../../config/jobs.ts';
import { createCli } from '../../../src/cli/program.ts';
import { readEntrypoint } from '../../helpers/config/dockerfile.ts';

const commandLine = await createCli();

const file = (name: string) => new URL(`../../../${name}`, import.meta.url);
const read = (name: string) => readFileSync(file(name), 'utf8');
const commands = commandLine.commands.map((command) => command.name());

const known: string[] = [
  ...variableNames,
  ...secretNames.map((name) => `${name}_FILE`),
  ...[...jobNames, pushJob.name].map((job) => `SCHEDULE_${job.toUpperCase().replaceAll('-', '_')}`),
];

interface Service {
  image: string;
  command?: string[];
  environment?: Record<string, string>;
  depends_on?: Record<string, { condition: string }>;
  profiles?: string[];
  volumes?: string[];
  env_file?: string[];
  healthcheck?: { disable?: boolean; test?: string[] };
  read_only?: boolean;
  tmpfs?: string[];
  cap_drop?: string[];
  security_opt?: string[];
  privileged?: boolean;
  user?: string;
  secrets?: string[];
  restart?: string;
  init?: boolean;
  mem_limit?: string;
  build?: { target: string };
}
const compose = parse(read('docker-compose.yml'), { merge: true }) as {
  services: Record<string, Service>;
  volumes: Record<string, unknown>;
  secrets: Record<string, { file: string }>;
};
const services = Object.entries(compose.services);
const ourServices = services.filter(([, { image }]) => image.startsWith('fulfilment-sync'));
/** Returns the words of the command line that a service of ours runs. */
const readWords = ({ build, command = [] }: Service) => [
  ...readEntrypoint(build?.target ?? '').filter(
    (word) => !/^(node|dist\/main\.js|--max-.*)$/.test(word),
  ),
  ...command,
];

describe('docker-compose.yml', () => {
  test('runs commands that exist, with variables that exist', () => {
    expect(ourServices.map(([name]) => name)).toEqual(['migrate', 'worker', 'sandbox']);
    for (const [, service] of ourServices) {
      const [name, ...words] = readWords(service);
      expect(commands).toContain(name);
      for (const variable of Object.keys(service.environment ?? {}))
        expect(known).toContain(variable);
      const options =
        commandLine.commands
          .find((command) => command.name() === name)
          ?.options.map(({ long }) => long) ?? [];
      for (const option of words.filter((word) => word.startsWith('--')))
        expect(options).toContain(option);
    }
  });

  test('lets settings/worker.env set every variable of the worker that it does not set itself', () => {
    const { worker, sandbox } = compose.services;
    expect(worker?.env_file).toEqual(['./settings/worker.env']);
    expect(worker?.volumes).toContain('./settings:/settings:ro');
    expect(
      Object.keys(worker?.environment ?? {}).filter((name) => name.startsWith('WAREHOUSE_')),
    ).toEqual([]);
    expect(read('docker-compose.yml')).not.toMatch(/\$\{/);
    expect(sandbox?.command).toContain('8090');
  });

  test('contains no password, and its worker is not a superuser', () => {
    const { postgres, redis, worker } = compose.services;
    for (const [name, { file: path }] of Object.entries(compose.secrets))
      expect(path).toBe(`./secrets/${name}`);
    expect(read('.gitignore').split('\n')).toContain('/secrets/');
    for (const [name, { environment = {}, secrets = [] }] of services)
      for (const [variable, value] of Object.entries(environment)) {
        expect([name, variable]).not.toEqual([
          name,
          expect.stringMatching(
            /(PASSWORD|TOKEN|DATABASE_URL|REDIS_URL|WEBHOOK_URL|WEBHOOK_SECRET)$/,
          ),
        ]);
        if (variable.endsWith('_FILE'))
          expect(secrets).toContain(value.replace('/run/secrets/', ''));
      }
    for (const [, { secrets = [] }] of services)
      for (const secret of secrets) expect(Object.keys(compose.secrets)).toContain(secret);
    expect(worker?.environment?.DATABASE_URL_FILE).toBe('/run/secrets/database-url');
    expect(redis?.command?.slice(0, 2)).toEqual(['redis-server', '/run/secrets/redis.conf']);
    expect(Object.keys(postgres?.environment ?? {})).not.toContain('POSTGRES_USER');
    const script = read('deploy/postgres/create-role.sh');
    expect(script).toMatch(/^create role fulfilment login createrole password :'password';$/m);
    expect(script).toMatch(/^create database erp owner fulfilment;$/m);
    expect(postgres?.volumes).toContain(
      './deploy/postgres/create-role.sh:/docker-entrypoint-initdb.d/create-role.sh:ro',
    );
  });

  test('has a script that makes its secrets and settings once, the secrets different in each place', () => {
    const folders = ['a', 'b'].map((name) => mkdtempSync(join(tmpdir(), `secrets-${name}-`)));
    try {
      const make = (cwd: string) => {
        execFileSync('sh', [fileURLToPath(file('deploy/create-secrets.sh'))], { cwd });
        const folder = join(cwd, 'secrets');
        expect(statSync(folder).mode & 0o777).toBe(0o700);
        const settings = parseEnv(readFileSync(join(cwd, 'settings', 'worker.env'), 'utf8'));
        for (const name of Object.keys(settings)) expect(known).toContain(name);
        expect(compose.services.worker?.secrets).toContain(
          settings.WAREHOUSE_PASSWORD_FILE?.replace('/run/secrets/', ''),
        );
        return Object.fromEntries(
          readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')]),
        );
      };
      const [one = {}, other = {}] = folders.map(make);
      expect(Object.keys(one)).toEqual(Object.keys(compose.secrets).sort());
      expect(one['database-url']).toBe(
        `postgres://fulfilment:${one['fulfilment-password']}@postgres:5432/erp`,
      );
      expect(one['redis-url']).toBe(`redis://:${one['redis-password']}@redis:6379`);
      expect(one['redis.conf']).toBe(`requirepass ${one['redis-password']}\n`);
      expect(one['admin-token']?.length).toBeGreaterThanOrEqual(32);
      for (const [name, value] of Object.entries(one))
        expect([name, value === other[name]]).toEqual([
          name,
          ['warehouse-password', 'alert-webhook-url'].includes(name),
        ]);
      expect(one['alert-webhook-secret']).toMatch(/^whsec_[A-Za-z0-9+/]{32}$/);
      expect(make(folders[0] ?? '')).toEqual(one);
    } finally {
      for (const folder of folders) rmSync(folder, { recursive: true });
    }
  });

  test('depends on services that exist, and on their health only if they have a check', () => {
    for (const [, { depends_on: needs, volumes }] of services) {
      for (const [name, { condition }] of Object.entries(needs ?? {})) {
        const needed = compose.services[name];
        expect(needed).toBeDefined();
        if (condition === 'service_healthy') expect(needed?.healthcheck?.test).toBeDefined();
        if (condition === 'service_completed_successfully') expect(needed?.restart).toBeUndefined();
      }
      for (const volume of volumes?.filter((name) => !name.startsWith('.')) ?? [])
        expect(Object.keys(compose.volumes)).toContain(volume.split(':')[0]);
    }
  });
});

test('each pipeline of deploy/otel/collector.yaml uses parts that the file configures', () => {
  const { service, ...parts } = parse(read('deploy/otel/collector.yaml')) as Record<
    string,
    Record<string, object>
  > & {
    service: { pipelines: Record<string, Record<string, string[]>> };
  };
  expect(Object.keys(service.pipelines)).toEqual(['traces', 'metrics']);
  for (const pipeline of Object.values(service.pipelines))
    for (const [kind, names] of Object.entries(pipeline))
      expect(Object.keys(parts[kind] ?? {})).toEqual(expect.arrayContaining(names));
});
