import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { findCycles, type Import, parseImports } from './helpers/imports.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

/**
 * The parts of the project that each part may import. `config types` allows only `import type` from config.
 * docs/architecture.md explains why.
 */
const allowed: Record<string, readonly string[]> = {
  config: [],
  'src/core': [],
  'src/network': [],
  'src/payloads': ['src/core'],
  'src/warehouse': ['src/core', 'config types'],
  'src/erp': ['src/core', 'src/network', 'config types'],
  'src/queue': ['src/core', 'config types'],
  'src/sandbox': ['src/core', 'config types'],
  'src/sync': ['src/core', 'src/payloads', 'src/warehouse', 'src/erp', 'config types'],
  jobs: ['src/core', 'src/sync', 'src/queue', 'config'],
  'src/app': [
    'config',
    'src/core',
    'src/network',
    'src/payloads',
    'src/warehouse',
    'src/erp',
    'src/queue',
    'src/sandbox',
    'src/sync',
    'jobs',
  ],
};

/**
 * Folders of a part, the lowest first. A folder may import from itself, from its subfolders, and from the folders
 * before it. A name with an ending is one file.
 */
const layers: Record<string, readonly string[]> = {
  'src/warehouse': ['transport', 'decoding', 'client.ts'],
  'src/erp': [
    'generated',
    'connection',
    'schema',
    'runs',
    'mirror',
    'pull',
    'rescan',
    'resources',
    'outbox',
    'privacy',
    'deliveries',
    'alerts',
    'figures',
    'reports',
    'maintenance',
  ],
  'src/sync': [
    'run',
    'reading',
    'commit',
    'paging',
    'streams',
    'pulls',
    'rescan',
    'push/payload',
    'push/kinds/order',
    'push/kinds/return',
    'push/kinds/inbound',
    'push/kinds/product',
    'push/kinds',
    'push',
  ],
  'src/sandbox': [
    'zone.ts',
    'random.ts',
    'refusal.ts',
    'request-log.ts',
    'faults.ts',
    'findings.ts',
    'normalize-body.ts',
    'store/service-lists.ts',
    'options.ts',
    'store',
    'rules',
    'robot',
    'world.ts',
    'state-file.ts',
    'operations',
    'control',
    'page',
    'server',
  ],
  'src/app': [
    'refuse-old-node.ts',
    'version.ts',
    'logging',
    'deps',
    'health',
    'deliveries',
    'alerts',
    'terminal',
    'metrics',
    'worker',
    'cli',
    'doctor',
    'verify',
    'demo',
    'admin/pages',
    'admin',
    'api',
    'mcp',
    'commands',
    'program.ts',
    'main.ts',
  ],
};

/** Packages that only these files may import. */
const restrictedPackages: Record<string, readonly string[]> = {
  undici: ['src/service/transport/http.ts', 'src/service/transport/dispatcher.ts'],
  pg: ['src/erp/', 'src/db/connect.ts'],
  kysely: ['src/erp/'],
  bullmq: ['src/queue/', 'src/schedule/open-queue.ts'],
  ioredis: ['src/queue/', 'src/schedule/open-redis.ts'],
};
/** Folders that may import only types of a package. Streams use `Transaction` to pass their writes to src/erp. */
const typesAllowedIn = { kysely: ['src/sync/'], undici: ['src/app/deliveries/'] } as Record<string, readonly string[]>;

const findPart = (file: string) => Object.keys(allowed).find((part) => file.startsWith(`${part}/`));

/** Returns the violations of the import rules in one file, in words. */
function findViolations(file: string, source: string): string[] {
  const part = findPart(file);
  if (part === undefined) return [`${file} belongs to no part of the layout`];
  return parseImports(source).flatMap((found) => {
    if (found.target.startsWith('node:')) return [];
    return found.target.startsWith('.') ? checkProjectImport(file, part, found) : checkPackageImport(file, found);
  });
}

function checkPackageImport(file: string, { target, typesOnly }: Import): string[] {
  const name = target.startsWith('@') ? target.split('/', 2).join('/') : (target.split('/')[0] ?? '');
  const places = restrictedPackages[name];
  if (places === undefined || places.some((place) => file.startsWith(place))) return [];
  if (typesOnly && typesAllowedIn[name]?.some((place) => file.startsWith(place))) return [];
  return [`${file} imports ${target}, which only ${places.join(', ')} may`];
}

function checkProjectImport(file: string, part: string, { target, typesOnly }: Import): string[] {
  const resolved = relative(root, join(root, dirname(file), target));
  if (resolved === 'package.json' && part === 'src/app') return [];
  const other = findPart(resolved);
  if (other === part) return checkLayers(file, part, resolved);
  const may = allowed[part] ?? [];
  if (other !== undefined && may.includes(other)) return [];
  if (other === 'config' && typesOnly && may.includes('config types')) return [];
  return [`${file} imports ${target}, which ${part} may not`];
}

function checkLayers(file: string, part: string, imported: string): string[] {
  const order = layers[part];
  if (order === undefined) return [];
  const [from, to] = [findLayer(order, part, file), findLayer(order, part, imported)];
  if (from === -1 || to === -1) return [`${from === -1 ? file : imported} belongs to no layer of ${part}`];
  return to <= from ? [] : [`${file} imports ${imported}, which is a higher layer of ${part}`];
}

/** Returns the index of the longest layer that the file is in; -1 if there is none. */
function findLayer(order: readonly string[], part: string, file: string): number {
  const path = relative(join(root, part), join(root, file));
  const fitting = order.filter((layer) => path === layer || path.startsWith(`${layer}/`));
  return order.indexOf(fitting.toSorted((one, two) => two.length - one.length)[0] ?? '');
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

describe('the import rules', () => {
  test('hold in every file', () => {
    expect(sourceFiles.length).toBeGreaterThan(60);
    const total = sourceFiles.reduce((sum, file) => sum + parseImports(read(file)).length, 0);
    expect(total).toBeGreaterThan(200);
    expect(sourceFiles.flatMap((file) => findViolations(file, read(file)))).toEqual([]);
  });

  test.each([
    ['src/sandbox/world.ts', "import { walk } from '../warehouse/http.ts';"],
    ['src/core/x.ts', "import { readConfig } from '../../config/env.ts';"],
    ['src/sync/x.ts', "import { operations } from '../../config/operations.ts';"],
    ['src/sync/x.ts', "import { sql } from 'kysely';"],
    ['src/queue/x.ts', "export { startDaemon } from '../app/daemon.ts';"],
    ['jobs/x.ts', "const x = await import('../src/cli/main.ts');"],
    ['src/sync/x.ts', "import { waitFor } from '../../test/helpers/wait.ts';"],
    ['src/sync/x.ts', "import {\n  Worker,\n} from 'bullmq';"],
    ['src/schedule/sql/leases.ts', "import type { Family } from '../mirror/tables.ts';"],
    ['src/sync/commit/x.ts', "import { orders } from '../streams/orders.ts';"],
    ['src/erp/new-folder/x.ts', "import { x } from '../connection/pool.ts';"],
  ])('refuse in %s: %j', (file, source) => expect(findViolations(file, source)).toHaveLength(1));

  test.each([
    ['src/sync/x.ts', "import type { OperationName } from '../../config/operations.ts';"],
    ['src/sync/x.ts', "import type { Transaction } from 'kysely';"],
    ['src/erp/x.ts', "import { Migrator } from 'kysely/migration';"],
    ['src/erp/mirror/x.ts', "import { underLease } from '../runs/leases.ts';"],
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

  test('do not exist, type imports included', () => expect(findCycles(graph(allFiles, read))).toEqual([]));

  test('are found, also through type imports', () => {
    const sources: Record<string, string> = {
      'a.ts': "import type { B } from './b.ts';",
      'b.ts': "import { c } from './c.ts';",
      'c.ts': "export { a } from './a.ts';",
      'd.ts': "import './a.ts';",
    };
    expect(findCycles(graph(Object.keys(sources), (file) => sources[file] ?? ''))).toEqual([['a.ts', 'b.ts', 'c.ts']]);
  });
});

test('kinds do not import each other', () => {
  const registry = 'src/push/kinds/registry.ts';
  const kinds = parseImports(read(registry))
    .map(({ target }) => join(dirname(registry), target))
    .filter((file) => file.startsWith('src/sync/push/kinds/'));
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

test('two files of sync, erp, queue, warehouse and core never share a name', () => {
  const rooms = sourceFiles.filter((file) => /^src\/(sync|erp|queue|warehouse|core)\//.test(file));
  const byName = Map.groupBy(rooms, (file) => file.split('/').at(-1));
  expect([...byName.values()].filter((files) => files.length > 1)).toEqual([]);
});

test('every migration is named NNNN_name.sql, numbered without gaps', () => {
  const names = readdirSync(join(root, 'migrations')).sort();
  expect(names.map((name) => Number(name.slice(0, 4)))).toEqual(names.map((_, index) => index + 1));
  for (const name of names) expect(name).toMatch(/^\d{4}_[a-z0-9_]+\.sql$/);
});
