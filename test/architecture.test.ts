import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const importStatement =
  /^\s*(?:import|export)\s+(?:type\s+)?(?:[^'";]*?\sfrom\s+)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]\s*\)/gm;

/** Returns the modules that a source imports or re-exports, types included, as they are written. */
const listImports = (source: string): string[] =>
  [...source.matchAll(importStatement)].map(([, target, dynamic]) => target ?? dynamic ?? '');

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
  undici: /^src\/service\/transport\/|^src\/operate\/deliveries\//,
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

  return listImports(source).flatMap((target) => {
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
const listProjectImports = (file: string): string[] =>
  listImports(read(file))
    .filter((target) => target.startsWith('.') && target.endsWith('.ts'))
    .map((target) => join(dirname(file), target));

test('an exported name has one meaning: no two files export the same', () => {
  const written = sourceFiles.filter((file) => !file.includes('/generated/'));
  expect(findSharedNames(new Map(written.map((file) => [file, read(file)])))).toEqual([]);
});

test('each file imports only from rooms below its own, and packages only where they may be used', () => {
  const total = sourceFiles.reduce((sum, file) => sum + listImports(read(file)).length, 0);
  expect(total).toBeGreaterThan(1_000);
  expect(sourceFiles.flatMap((file) => findViolations(file, read(file)))).toEqual([]);
});

test('no files import each other, directly or through others', () => {
  const cycles: string[] = [];
  const finished = new Set<string>();
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) cycles.push([...path.slice(path.indexOf(file)), file].join(' -> '));
    if (finished.has(file) || path.includes(file)) return;

    for (const target of listProjectImports(file)) visit(target, [...path, file]);
    finished.add(file);
  };
  for (const file of allFiles) visit(file, []);
  expect(cycles).toEqual([]);
});

test('kinds do not import each other', () => {
  const registry = 'src/push/kinds/registry.ts';
  const kinds = listProjectImports(registry).filter((file) => file.startsWith('src/push/kinds/'));
  expect(kinds.length).toBeGreaterThan(5);
  const siblings = kinds.flatMap((file) =>
    listProjectImports(file)
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
