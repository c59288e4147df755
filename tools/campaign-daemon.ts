/**
 * Plays what the daemon promises at full length: `npm run campaign:daemon`, a quarter of an hour. Queues that are emptied,
 * workers that are killed and stopped, servers that are away for a minute, slow clients, and ten hours of track-trace.
 */
import { spawnSync } from 'node:child_process';

const files = ['fleet', 'outage', 'track-trace'].map((name) => `test/e2e/worker/${name}.test.ts`);
const { status } = spawnSync('vitest', ['run', '--project', 'integration', ...files, ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { ...process.env, CAMPAIGN_DAEMON: '1' },
});
process.exitCode = status ?? 1;
