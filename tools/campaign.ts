/**
 * Runs long tests at full length:
 * - `npm run campaign -- 1-20`: 30 virtual days each (test/e2e/campaigns/campaign.test.ts), one
 *   campaign per seed
 * - `npm run campaign:push -- 10000`: pushes many orders under many kinds of failures
 *   (test/e2e/campaigns/push.test.ts); with `--without-look-ups`, the service finds no order by its
 *   number
 * - `npm run campaign:daemon`: a quarter of an hour, in which queues are emptied, workers are
 *   killed and stopped, servers are away for a minute, clients are slow, and track-trace runs for
 *   ten hours
 */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

/** Runs test files with variables that lengthen them. */
function runTests(files: readonly string[], env: Readonly<Record<string, string>>): void {
  const options = { stdio: 'inherit', env: { ...process.env, ...env } } as const;
  process.exitCode =
    spawnSync('vitest', ['run', '--project', 'full', ...files], options).status ?? 1;
}

/** Ends the program if an argument does not have its form. */
function checkArgument(given: string, form: RegExp, advice: string): void {
  if (form.test(given)) return;
  process.stderr.write(`${advice}\n`);
  process.exit(2);
}

const [first = '1-3', ...others] = process.argv.slice(2);
if (first === 'daemon') {
  const files = ['fleet', 'outage', 'track-trace'].map((name) => `test/e2e/worker/${name}.test.ts`);
  runTests([...files, ...others], { CAMPAIGN_DAEMON: '1' });
} else if (first === 'push') {
  const options = { 'without-look-ups': { type: 'boolean', default: false } } as const;
  const { positionals, values } = parseArgs({ args: others, allowPositionals: true, options });
  const [orders = '1000'] = positionals;
  checkArgument(
    orders,
    /^[1-9]\d{0,5}$/,
    'Give the number of orders: npm run campaign:push -- 10000',
  );
  const found: Record<string, string> = values['without-look-ups']
    ? { PUSH_CAMPAIGN_WITHOUT_LOOK_UPS: '1' }
    : {};
  runTests(['test/e2e/campaigns/push.test.ts'], { ...found, PUSH_CAMPAIGN_ORDERS: orders });
} else {
  checkArgument(
    first,
    /^\d+(-\d+)?$/,
    'Give the seeds as one number or a span: npm run campaign -- 1-20',
  );
  runTests(['test/e2e/campaigns/campaign.test.ts'], { CAMPAIGN_SEEDS: first });
}
