import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));

/** What each part may import of ours; `config types` is config with `import type` alone. docs/architecture.md says why. */
const allowed: Record<string, readonly string[]> = {
  config: [],
  'src/core': [],
  'src/warehouse': ['src/core', 'config types'],
  'src/erp': ['src/core', 'config types'],
  'src/queue': ['src/core', 'config types'],
  'src/sandbox': ['src/core', 'config types'],
  'src/sync': ['src/core', 'src/warehouse', 'src/erp', 'config types'],
  jobs: ['src/core', 'src/sync', 'src/queue', 'config'],
  'src/app': ['config', 'src/core', 'src/warehouse', 'src/erp', 'src/queue', 'src/sandbox', 'src/sync', 'jobs'],
};

/** Packages that only these files may import. */
const fenced: Record<string, readonly string[]> = {
  undici: ['src/warehouse/transport/http.ts', 'src/app/deps/warehouses.ts'],
  pg: ['src/erp/', 'src/app/deps/database.ts'],
  kysely: ['src/erp/'],
  bullmq: ['src/queue/', 'src/app/deps/queue.ts'],
  ioredis: ['src/queue/', 'src/app/deps/redis.ts'],
};
/** `Transaction` is the type by which a stream hands its writes to src/erp; it carries no SQL. */
const typeOnly = { kysely: ['src/sync/'] } as Record<string, readonly string[]>;

interface Import {
  readonly target: string;
  readonly typesOnly: boolean;
}

const statement =
  /^\s*(?:import|export)\s+(type\s+)?(?:[^'";]*?\sfrom\s+)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]\s*\)/gm;

function importsOf(source: string): Import[] {
  return [...source.matchAll(statement)].map(([, type, target, dynamic]) => ({
    target: target ?? dynamic ?? '',
    typesOnly: type !== undefined,
  }));
}

const partOf = (file: string) => Object.keys(allowed).find((part) => file.startsWith(`${part}/`));

/** What is wrong with the imports of one file, in words. */
function violations(file: string, source: string): string[] {
  const part = partOf(file);
  if (part === undefined) return [`${file} belongs to no part of the layout`];
  return importsOf(source).flatMap(({ target, typesOnly }) => {
    if (target.startsWith('node:')) return [];
    if (!target.startsWith('.')) {
      const name = target.startsWith('@') ? target.split('/', 2).join('/') : (target.split('/')[0] ?? '');
      const places = fenced[name];
      if (places === undefined || places.some((place) => file.startsWith(place))) return [];
      if (typesOnly && typeOnly[name]?.some((place) => file.startsWith(place))) return [];
      return [`${file} imports ${target}, which only ${places.join(', ')} may`];
    }
    const resolved = relative(root, join(root, dirname(file), target));
    if (resolved === 'package.json' && part === 'src/app') return [];
    const other = partOf(resolved);
    const may = allowed[part] ?? [];
    if (other === part || (other !== undefined && may.includes(other))) return [];
    if (other === 'config' && typesOnly && may.includes('config types')) return [];
    return [`${file} imports ${target}, which ${part} may not`];
  });
}

const sourceFiles = ['config', 'jobs', 'src'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => `${folder}/${file}`),
);
const read = (file: string) => readFileSync(join(root, file), 'utf8');

describe('the import rules', () => {
  test('hold in every file', () => {
    expect(sourceFiles.length).toBeGreaterThan(60);
    const total = sourceFiles.reduce((sum, file) => sum + importsOf(read(file)).length, 0);
    expect(total).toBeGreaterThan(200);
    expect(sourceFiles.flatMap((file) => violations(file, read(file)))).toEqual([]);
  });

  test.each([
    ['src/sandbox/x.ts', "import { walk } from '../warehouse/http.ts';"],
    ['src/warehouse/x.ts', "import { World } from '../sandbox/world.ts';"],
    ['src/core/x.ts', "import { readConfig } from '../../config/env.ts';"],
    ['src/erp/x.ts', "import { walk } from '../sync/walk.ts';"],
    ['src/sync/x.ts', "import { operations } from '../../config/operations.ts';"],
    ['src/sync/x.ts', "import { sql } from 'kysely';"],
    ['src/sync/x.ts', "import { request } from 'undici';"],
    ['src/app/commands/x.ts', "import pg from 'pg';"],
    ['src/queue/x.ts', "export { startDaemon } from '../app/daemon.ts';"],
    ['jobs/x.ts', "const x = await import('../src/app/main.ts');"],
    ['src/sync/x.ts', "import { waitFor } from '../../test/helpers/wait.ts';"],
    ['src/sync/x.ts', "import {\n  Worker,\n} from 'bullmq';"],
  ])('find %s with %j', (file, source) => expect(violations(file, source)).toHaveLength(1));

  test.each([
    ['src/sync/x.ts', "import type { OperationName } from '../../config/operations.ts';"],
    ['src/sync/x.ts', "import type { Transaction } from 'kysely';"],
    ['src/erp/x.ts', "import { Migrator } from 'kysely/migration';"],
  ])('let %s have %j', (file, source) => expect(violations(file, source)).toEqual([]));
});

test('only config/env.ts reads the environment', () => {
  expect(sourceFiles.filter((file) => read(file).includes('process.env'))).toEqual(['config/env.ts']);
});

test('files are of a size that can be read in one go', () => {
  const long = sourceFiles.filter(
    (file) => file !== 'src/erp/generated/tables.ts' && read(file).split('\n').length > 250,
  );
  expect(long).toEqual([]);
});

test('every migration is named NNNN_name.sql, numbered without gaps, and states the oldest code', () => {
  const names = readdirSync(join(root, 'migrations')).sort();
  expect(names.map((name) => Number(name.slice(0, 4)))).toEqual(names.map((_, index) => index + 1));
  for (const name of names) {
    expect(name).toMatch(/^\d{4}_[a-z0-9_]+\.sql$/);
    expect(read(`migrations/${name}`)).toMatch(/^-- oldest code: \d+\.\d+\.\d+$/m);
  }
});
