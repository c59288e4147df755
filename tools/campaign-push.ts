/**
 * Pushes many orders under many kinds of failures (test/e2e/campaigns/push.test.ts): `npm run campaign:push -- 10000`.
 */
import { spawnSync } from 'node:child_process';

const orders = process.argv[2] ?? '1000';
if (!/^[1-9]\d{0,5}$/.test(orders)) {
  process.stderr.write('Give the number of orders: npm run campaign:push -- 10000\n');
  process.exit(2);
}
const args = ['run', '--project', 'full', 'test/e2e/campaigns/push.test.ts'];
const { status } = spawnSync('vitest', args, {
  stdio: 'inherit',
  env: { ...process.env, PUSH_CAMPAIGN_ORDERS: orders },
});
process.exitCode = status ?? 1;
