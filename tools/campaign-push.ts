/**
 * Pushes many orders under many kinds of failures (test/e2e/campaigns/push.test.ts): `npm run campaign:push -- 10000`.
 * With `--without-look-ups`, the service finds no order by its number.
 */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { 'without-look-ups': { type: 'boolean', default: false } },
});
const [orders = '1000'] = positionals;
if (!/^[1-9]\d{0,5}$/.test(orders)) {
  process.stderr.write('Give the number of orders: npm run campaign:push -- 10000\n');
  process.exit(2);
}
const args = ['run', '--project', 'full', 'test/e2e/campaigns/push.test.ts'];
const found: Record<string, string> = values['without-look-ups'] ? { PUSH_CAMPAIGN_WITHOUT_LOOK_UPS: '1' } : {};
const { status } = spawnSync('vitest', args, {
  stdio: 'inherit',
  env: { ...process.env, ...found, PUSH_CAMPAIGN_ORDERS: orders },
});
process.exitCode = status ?? 1;
