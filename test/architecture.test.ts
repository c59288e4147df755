import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { findCycles, parseImports } from './helpers/imports.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

/**
 * The rooms of the house, from the ground up. A room may import from itself and from the rooms
 * before it. docs/architecture.md says what each one does.
 */
const rooms = [
  'config',
  'src/core',
  'src/db',
  'src/service',
  'src/schedule',
  'src/pull',
  'src/push',
  'src/privacy',
  'src/operate',
  'jobs',
  'src/serve',
  'src/sandbox',
  'src/cli',
] as const;

/**
 * Rooms that may import only these rooms: leaves, and the sandbox, which shares nothing with
 * `src/service`.
 */
const onlyFrom: Readonly<Record<string, readonly string[]>> = {
  'src/core': [],
  'src/sandbox': ['src/core'],
};

/** Packages that only these places may import, types included. */
const restrictedPackages: Record<string, RegExp> = {
  undici: /^src\/service\/transport\/|^src\/operate\/(webhooks|deliveries)\//,
  pg: /^src\/db\/|^src\/[^/]+\/sql\//,
  kysely: /^src\/db\/|^src\/[^/]+\/sql\//,
  bullmq: /^src\/schedule\//,
  ioredis: /^src\/schedule\//,
};

const findRoom = (file: string) => rooms.find((room) => file.startsWith(`${room}/`));

/** Returns the violations of the import rules in one file, in words. */
function findViolations(file: string, source: string): string[] {
  const room = findRoom(file);
  if (room === undefined) return [`${file} is in no room`];

  return parseImports(source).flatMap(({ target }) => {
    if (target.startsWith('node:')) return [];
    return target.startsWith('.')
      ? checkProjectImport(file, room, target)
      : checkPackageImport(file, target);
  });
}

function checkPackageImport(file: string, target: string): string[] {
  const name = target.startsWith('@')
    ? target.split('/', 2).join('/')
    : (target.split('/')[0] ?? '');
  const places = restrictedPackages[name];
  if (places === undefined || places.test(file)) return [];
  return [`${file} imports ${target}, which only ${places.source} may`];
}

function checkProjectImport(file: string, room: (typeof rooms)[number], target: string): string[] {
  const imported = join(dirname(file), target);
  if (imported === 'package.json') return [];

  const other = findRoom(imported);
  if (other === room) return [];

  const lower: readonly string[] = onlyFrom[room] ?? rooms.slice(0, rooms.indexOf(room));
  const may = other !== undefined && lower.includes(other);
  return may ? [] : [`${file} imports ${target}, which is not below ${room}`];
}

const declaration =
  /^export (?:async )?(?:const|let|function\*?|class|abstract class|interface|type|enum) (\w+)/gm;

/**
 * Returns the names that several files export, with these files. The sandbox counts by itself: it
 * shares nothing with the others, and has the words of the service.
 */
function findSharedNames(sources: ReadonlyMap<string, string>): string[] {
  const files = new Map<string, string[]>();
  for (const [file, source] of sources)
    for (const [, name = ''] of source.matchAll(declaration)) {
      const key = `${file.startsWith('src/sandbox/') ? 'sandbox: ' : ''}${name}`;
      files.set(key, [...(files.get(key) ?? []), file]);
    }
  return [...files].flatMap(([name, places]) =>
    places.length > 1 ? [`${name} is exported by ${places.join(', ')}`] : [],
  );
}

const listFiles = (folders: readonly string[]) =>
  folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !file.includes('node_modules/'))
      .map((file) => `${folder}/${file}`),
  );
const sourceFiles = listFiles(['config', 'jobs', 'src']);
const allFiles = [...sourceFiles, ...listFiles(['test', 'tools', 'bench'])];
const read = (file: string) => readFileSync(join(root, file), 'utf8');

test('an exported name has one meaning: no two files export the same', () => {
  const written = sourceFiles.filter((file) => !file.includes('/generated/'));
  expect(findSharedNames(new Map(written.map((file) => [file, read(file)])))).toEqual([]);
});

describe('the import rules', () => {
  test('hold in every file', () => {
    expect(sourceFiles.length).toBeGreaterThan(60);
    const total = sourceFiles.reduce((sum, file) => sum + parseImports(read(file)).length, 0);
    expect(total).toBeGreaterThan(200);
    expect(sourceFiles.flatMap((file) => findViolations(file, read(file)))).toEqual([]);
  });

  test.each([
    ['src/sandbox/world.ts', "import { walk } from '../service/http.ts';"],
    ['src/core/x.ts', "import { readConfig } from '../../config/env.ts';"],
    ['src/pull/x.ts', "import { sql } from 'kysely';"],
    ['src/pull/x.ts', "import type { Transaction } from 'kysely';"],
    ['src/schedule/x.ts', "export { startDaemon } from '../cli/worker/daemon.ts';"],
    ['jobs/x.ts', "const x = await import('../src/cli/main.ts');"],
    ['src/push/x.ts', "import { waitFor } from '../../test/helpers/wait.ts';"],
    ['src/push/x.ts', "import {\n  Worker,\n} from 'bullmq';"],
    ['src/service/sql/x.ts', "import type { Family } from '../../pull/sql/tables.ts';"],
    ['src/new-room/x.ts', ''],
  ])('refuse in %s: %j', (file, source) => expect(findViolations(file, source)).toHaveLength(1));

  test.each([
    ['src/pull/x.ts', "import type { OperationName } from '../../config/operations.ts';"],
    ['src/pull/sql/x.ts', "import { sql } from 'kysely';"],
    ['src/db/x.ts', "import { Migrator } from 'kysely/migration';"],
    ['src/pull/sql/x.ts', "import { underLease } from '../../schedule/sql/leases.ts';"],
  ])('allow in %s: %j', (file, source) => expect(findViolations(file, source)).toEqual([]));
});

describe('import cycles', () => {
  const graph = (files: readonly string[], source: (file: string) => string) =>
    new Map(
      files.map((file) => {
        const targets = parseImports(source(file)).filter(({ target }) => target.startsWith('.'));
        return [file, targets.map(({ target }) => join(dirname(file), target))];
      }),
    );

  test('do not exist, type imports included', () =>
    expect(findCycles(graph(allFiles, read))).toEqual([]));

  test('are found, also through type imports', () => {
    const sources: Record<string, string> = {
      'a.ts': "import type { B } from './b.ts';",
      'b.ts': "import { c } from './c.ts';",
      'c.ts': "export { a } from './a.ts';",
      'd.ts': "import './a.ts';",
    };
    expect(findCycles(graph(Object.keys(sources), (file) => sources[file] ?? ''))).toEqual([
      ['a.ts', 'b.ts', 'c.ts'],
    ]);
  });
});

test('kinds do not import each other', () => {
  const registry = 'src/push/kinds/registry.ts';
  const kinds = parseImports(read(registry))
    .map(({ target }) => join(dirname(registry), target))
    .filter((file) => file.startsWith('src/push/kinds/'));
  expect(kinds.length).toBeGreaterThan(10);
  const siblings = kinds.flatMap((file) =>
    parseImports(read(file))
      .map(({ target }) => join(dirname(file), target))
      .filter((target) => kinds.includes(target))
      .map((target) => `${file} imports ${target}`),
  );
  expect(siblings).toEqual([]);
});

test('only config/ reads the environment', () => {
  expect(sourceFiles.filter((file) => read(file).includes('process.env'))).toEqual([
    'config/env-file.ts',
    'config/env.ts',
  ]);
});

test('two files of the rooms never share a name, but for commands, which have the name that one types', () => {
  const files = sourceFiles.filter((file) => /^src\/(?!sandbox\/|cli\/commands\/)/.test(file));
  const byName = Map.groupBy(files, (file) => file.split('/').at(-1));
  expect([...byName.values()].filter((same) => same.length > 1)).toEqual([]);
});

test('every migration is named NNNN_name.sql, numbered without gaps', () => {
  const names = readdirSync(join(root, 'migrations')).sort();
  expect(names.map((name) => Number(name.slice(0, 4)))).toEqual(names.map((_, index) => index + 1));
  for (const name of names) expect(name).toMatch(/^\d{4}_[a-z0-9_]+\.sql$/);
});
