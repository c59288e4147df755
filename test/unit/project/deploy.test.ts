import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { readConfig, variableNames } from '../../../config/env.ts';
import { jobNames, pushJob } from '../../../config/jobs.ts';
import { operations } from '../../../config/operations.ts';
import { createCli } from '../../../src/app/program/program.ts';

const file = (name: string) => new URL(`../../../${name}`, import.meta.url);
const read = (name: string) => readFileSync(file(name), 'utf8');
const manifest = JSON.parse(read('package.json')) as { scripts: Record<string, string>; bin: Record<string, string> };
const commands = createCli().commands.map((command) => command.name());

const known: string[] = [
  ...variableNames,
  ...[...jobNames, pushJob.name].map((job) => `SCHEDULE_${job.toUpperCase().replaceAll('-', '_')}`),
];

interface Service {
  image: string;
  command?: string[];
  environment?: Record<string, string>;
  depends_on?: Record<string, { condition: string }>;
  profiles?: string[];
  volumes?: string[];
  healthcheck?: { disable?: boolean; test?: string[] };
  read_only?: boolean;
  tmpfs?: string[];
  cap_drop?: string[];
  security_opt?: string[];
  privileged?: boolean;
  user?: string;
}
const compose = parse(read('docker-compose.yml'), { merge: true }) as {
  services: Record<string, Service>;
  volumes: Record<string, unknown>;
};
const services = Object.entries(compose.services);
const passwords = ['POSTGRES_PASSWORD', 'FULFILMENT_PASSWORD', 'REDIS_PASSWORD'];

describe('docker-compose.yml', () => {
  test('runs commands that exist, with variables that exist', () => {
    const ours = services.filter(([, { image }]) => image === 'fulfilment-sync');
    expect(ours.map(([name]) => name)).toEqual(['migrate', 'worker', 'sandbox']);
    for (const [, { command, environment }] of ours) {
      expect(commands).toContain(command?.[0]);
      for (const name of Object.keys(environment ?? {})) expect(known).toContain(name);
      const options =
        createCli()
          .commands.find((known) => known.name() === command?.[0])
          ?.options.map(({ long }) => long) ?? [];
      for (const option of command?.filter((word) => word.startsWith('--')) ?? []) expect(options).toContain(option);
    }
  });

  test('passes every variable to the worker except files, ADMIN_*, OTEL_* and LOG_PRETTY', () => {
    const set = Object.keys(compose.services.worker?.environment ?? {});
    const elsewhere = known.filter((name) => /_FILE$|^ADMIN_|^OTEL_|^LOG_PRETTY$/.test(name));
    expect(known.filter((name) => !set.includes(name) && !elsewhere.includes(name))).toEqual([]);
  });

  test('takes from outside only known variables and the passwords of its servers', () => {
    for (const [, name = ''] of read('docker-compose.yml').matchAll(/\$\{(\w+)/g))
      expect([...known, ...passwords]).toContain(name);
  });

  test('contains no password, and its worker is not a superuser', () => {
    const { postgres, redis, worker } = compose.services;
    for (const name of passwords)
      for (const use of read('docker-compose.yml').match(new RegExp(`\\$\\{${name}[^}]*`, 'g')) ?? [])
        expect(use).toMatch(/:\?is required/);
    expect(worker?.environment?.DATABASE_URL).toMatch(/^postgres:\/\/fulfilment:\$\{FULFILMENT_PASSWORD/);
    expect(worker?.environment?.REDIS_URL).toMatch(/^redis:\/\/:\$\{REDIS_PASSWORD/);
    expect(redis?.command?.join(' ')).toMatch(/--requirepass \$\{REDIS_PASSWORD/);
    expect(Object.keys(postgres?.environment ?? {})).not.toContain('POSTGRES_USER');
    const script = read('deploy/postgres/create-role.sh');
    expect(script).toMatch(/^create role fulfilment login createrole password :'password';$/m);
    expect(script).toMatch(/^create database erp owner fulfilment;$/m);
    expect(postgres?.volumes).toContain(
      './deploy/postgres/create-role.sh:/docker-entrypoint-initdb.d/create-role.sh:ro',
    );
  });

  test('depends on services that exist, and on their health only if they have a check', () => {
    for (const [, { depends_on: needs, volumes }] of services) {
      for (const [name, { condition }] of Object.entries(needs ?? {})) {
        const needed = compose.services[name];
        expect(needed).toBeDefined();
        if (condition === 'service_healthy') expect(needed?.healthcheck?.test).toBeDefined();
      }
      for (const volume of volumes?.filter((name) => !name.startsWith('.')) ?? [])
        expect(Object.keys(compose.volumes)).toContain(volume.split(':')[0]);
    }
  });

  test('keeps our containers from writing files and from gaining privileges', () => {
    for (const [name, service] of services.filter(([, { image }]) => image === 'fulfilment-sync')) {
      expect([name, service]).toEqual([
        name,
        expect.objectContaining({
          read_only: true,
          tmpfs: ['/tmp'],
          cap_drop: ['ALL'],
          security_opt: ['no-new-privileges:true'],
        }),
      ]);
      expect([service.user, service.privileged]).toEqual([undefined, undefined]);
    }
  });

  test('gives the queue a Redis that evicts nothing and persists its data', () => {
    const command = compose.services.redis?.command?.join(' ');
    expect(command).toContain('--maxmemory-policy noeviction');
    expect(command).toContain('--appendonly yes');
  });

  test('starts the sandbox with the profile sandbox, on the port that the worker calls', () => {
    expect(compose.services.sandbox?.profiles).toEqual(['sandbox']);
    const port = compose.services.sandbox?.command?.at(-1);
    expect(compose.services.worker?.environment?.WAREHOUSE_BASE_URL).toContain(`http://sandbox:${port}`);
    expect(compose.services.sandbox?.healthcheck?.test?.join(' ')).toContain(
      `http://127.0.0.1:${port}${operations['common.status.get'].path}`,
    );
  });
});

describe('Dockerfile', () => {
  const lines = read('Dockerfile').split('\n');

  test('copies files that exist and that .dockerignore allows', () => {
    const ignored = read('.dockerignore');
    const sources = lines
      .filter((line) => line.startsWith('COPY ') && !line.includes('--from='))
      .flatMap((line) => line.split(' ').slice(1, -1));
    expect(sources.length).toBeGreaterThan(5);
    for (const source of sources) {
      expect(existsSync(file(source))).toBe(true);
      expect(ignored).toContain(`!${source}`);
    }
  });

  test('copies between stages only what an earlier stage has', () => {
    const between = lines.filter((line) => line.includes('COPY --from='));
    expect(between).toEqual([
      'COPY --from=dependencies /app/node_modules node_modules',
      'COPY --from=build /build/dist dist',
    ]);
    for (const stage of ['build', 'dependencies']) expect(lines).toContain(`FROM node:24-slim AS ${stage}`);
    expect(manifest.scripts.build).toBe('rolldown -c');
    expect(read('rolldown.config.ts')).toContain("dir: 'dist'");
  });

  test('checks health at the default port and path of the worker', () => {
    const { ADMIN_PORT } = readConfig({ database: false, clients: false }, {});
    expect(read('Dockerfile')).toContain(`(process.env.ADMIN_PORT || ${ADMIN_PORT}) + '/livez'`);
    expect(read('src/app/admin/probes.ts')).toContain("'/livez'");
  });

  test('runs existing scripts, is not root, and starts the program that package.json names', () => {
    const scripts = [...read('Dockerfile').matchAll(/npm run ([\w-]+)/g)].map(([, name]) => name ?? '');
    expect(scripts).toEqual(['build']);
    for (const script of scripts) expect(manifest.scripts[script]).toBeDefined();
    expect(lines).toContain('USER node');
    const entrypoint = JSON.parse(lines.find((line) => line.startsWith('ENTRYPOINT '))?.slice(11) ?? '[]') as string[];
    const bounds = ['--max-semi-space-size=4', '--max-old-space-size=1024'];
    expect(entrypoint).toEqual(['node', ...bounds, manifest.bin['fulfilment-sync']]);
    expect(commands).toContain(/CMD \["(\w+)"\]/.exec(lines.at(-2) ?? '')?.[1]);
  });
});
