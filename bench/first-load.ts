/**
 * First load of many shipments and their orders into an empty database, killed in the middle: `npm run bench:first-load`.
 * Prints rows, seconds and the most memory the process held, early and at the end.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { startEmbeddedPostgres } from '../src/app/demo/embedded-postgres.ts';
import { type DemoProcess, startSandbox } from '../src/app/demo/processes.ts';

const rows = Number(process.argv[2] ?? 100_000);
const main = fileURLToPath(new URL('../src/app/main.ts', import.meta.url));
const started: DemoProcess[] = [];
const postgres = await startEmbeddedPostgres();

/** Resident memory in MB, as the system counts it. */
function residentMb({ pid }: ChildProcess): number {
  const kilobytes = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Math.round(Number(kilobytes ?? 0) / 1_024);
}

/** Runs a job; ends it after `killAfterMs` where that is given. */
async function load(job: string, env: NodeJS.ProcessEnv, killAfterMs?: number) {
  const child = spawn(process.execPath, [main, 'run', job], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  const ended = once(child, 'exit');
  const startedAtMs = performance.now();
  const memory: number[] = [];
  while (child.exitCode === null && child.signalCode === null) {
    const spentMs = performance.now() - startedAtMs;
    if (killAfterMs !== undefined && spentMs > killAfterMs) {
      process.stdout.write(spawnSync(process.execPath, [main, 'status'], { env, encoding: 'utf8' }).stdout);
      child.kill('SIGKILL');
      break;
    }
    if (spentMs > 1_500) memory.push(residentMb(child));
    await Promise.race([ended, wait(250)]);
  }
  await ended;
  return { seconds: (performance.now() - startedAtMs) / 1_000, memory, output: output.trim() };
}

try {
  const sandbox = await startSandbox(0, started);
  const seed = { client: 'default', shipments: rows, spreadDays: 80 };
  const headers = { 'content-type': 'application/json' };
  await fetch(new URL('/_sandbox/seed', sandbox), { method: 'POST', headers, body: JSON.stringify(seed) });
  const env = {
    ...process.env,
    DATABASE_URL: postgres.url,
    WAREHOUSE_BASE_URL: sandbox.href,
    WAREHOUSE_USERNAME: 'default',
    WAREHOUSE_PASSWORD: 'default',
    LOG_LEVEL: 'error',
  };
  spawnSync(process.execPath, [main, 'migrate'], { env });
  for (const job of ['pull-shipments', 'pull-orders']) {
    await load(job, env, 6_000);
    // The lease of the one that was killed has to run out.
    await wait(10_500);
    const { seconds, memory, output } = await load(job, env);
    const early = Math.max(...memory.slice(0, Math.ceil(memory.length / 4)));
    process.stdout.write(
      `${output}\n  the rest in ${seconds.toFixed(1)} s; RSS ${early} MB in the first quarter, ${Math.max(...memory)} MB at most\n`,
    );
  }
} finally {
  await Promise.all(started.map((child) => child.end()));
  await postgres.stop();
}
