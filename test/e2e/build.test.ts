import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { compareWithSandbox } from '../../src/app/demo/oracle.ts';
import { useDatabase } from '../helpers/database.ts';
import { useProcesses, workerEnv } from '../helpers/processes.ts';
import { waitFor } from '../helpers/wait.ts';

const database = useDatabase({ migrated: false });
const processes = useProcesses();
const root = fileURLToPath(new URL('../..', import.meta.url));

// It compiles everything: on a busy machine that takes minutes.
test('the built program migrates, follows the sandbox and ends', { timeout: 400_000 }, async () => {
  // Inside the project, so that it finds its packages; a folder of its own, so that two runs do not meet.
  const out = join(root, 'node_modules', '.cache', `fulfilment-sync-build-${process.pid}`);
  const tsc = join(createRequire(import.meta.url).resolve('typescript/package.json'), '../bin/tsc');
  try {
    execFileSync(process.execPath, [tsc, '-p', join(root, 'tsconfig.build.json'), '--outDir', out], { stdio: 'pipe' });
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: { build: string } };
    for (const folder of ['migrations', 'src/app/admin/assets']) {
      expect(scripts.build).toContain(`'${folder}'`);
      cpSync(join(root, folder), join(out, folder), { recursive: true });
    }
    const main = join(out, 'src/app/main.js');
    const sandbox = await processes.sandbox();
    await sandbox.advance(86_400);
    const env = workerEnv(database.url, sandbox, { SCHEDULE_PULL_SHIPMENTS: '1s', SCHEDULE_PULL_ORDERS: '1s' });
    expect((await processes.cli(['migrate'], env, main).ended).code).toBe(0);
    const worker = processes.cli(['worker'], env, main);
    await worker.line('worker_started');
    await waitFor(
      'the tables to be the sandbox',
      async () => (await compareWithSandbox(database.db, sandbox.url, ['orders', 'shipments'])).length === 0,
    );
    const { port } = JSON.parse(await worker.line('admin_listening')) as { port: number };
    for (const path of ['/', '/assets/page.css', '/queues', '/metrics'])
      expect([path, (await fetch(`http://127.0.0.1:${port}${path}`)).status]).toEqual([path, 200]);
    worker.kill('SIGTERM');
    expect((await worker.ended).code).toBe(0);
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
});
