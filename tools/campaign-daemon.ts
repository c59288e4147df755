/**
 * Runs the long tests of the daemon at full length: `npm run campaign:daemon`, a quarter of an hour. Queues are
 * emptied, workers are killed and stopped, servers are away for a minute, clients are slow, and track-trace runs for
 * ten hours.
 */
import { spawnSync } from 'node:child_process';

const files = ['fleet', 'outage', 'track-trace'].map((name) => `test/e2e/worker/${name}.test.ts`);
const { status } = spawnSync('vitest', ['run', '--project', 'full', ...files, ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { ...process.env, CAMPAIGN_DAEMON: '1' },
});
process.exitCode = status ?? 1;
