/**
 * Runs campaigns of 30 virtual days (test/e2e/campaigns/campaign.test.ts), one per seed: `npm run campaign -- 1-20`.
 */
import { spawnSync } from 'node:child_process';

const seeds = process.argv[2] ?? '1-3';
if (!/^\d+(-\d+)?$/.test(seeds)) {
  process.stderr.write('Give the seeds as one number or a span: npm run campaign -- 1-20\n');
  process.exit(2);
}
const args = ['run', '--project', 'full', 'test/e2e/campaigns/campaign.test.ts'];
const { status } = spawnSync('vitest', args, { stdio: 'inherit', env: { ...process.env, CAMPAIGN_SEEDS: seeds } });
process.exitCode = status ?? 1;
