/**
 * Runs one backfill of @supabase/stripe-sync-engine, as in its README: `stripe-sync.ts DATABASE_URL
 * PORT`.
 */
import { createRequire } from 'node:module';
import pg from 'pg';
import Stripe from 'stripe';

// Uses the CommonJS build: the module build does not find its migrations (0.48.5 uses __dirname
// there).
const { runMigrations, StripeSync } = createRequire(import.meta.url)(
  '@supabase/stripe-sync-engine',
) as typeof import('@supabase/stripe-sync-engine');

const [, , databaseUrl = '', port = ''] = process.argv;
// The migrations of the engine support only this schema.
const schema = 'stripe';
await runMigrations({ databaseUrl, schema });
// The engine looks up the items of each subscription without an index. With this index it does not
// get slower per row.
const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 });
await pool.query(`create index on ${schema}.subscription_items (subscription)`);
await pool.end();
const sync = new StripeSync({
  schema,
  poolConfig: { connectionString: databaseUrl, max: 10, keepAlive: true },
  stripeSecretKey: 'sk_test_bench',
  stripeWebhookSecret: 'whsec_bench',
});
// The engine has no other way to use another server than Stripe's.
sync.stripe = new Stripe('sk_test_bench', {
  host: '127.0.0.1',
  port,
  protocol: 'http',
  telemetry: false,
});
const startedAtMs = performance.now();
const synced = await sync.syncBackfill({ object: 'subscription' });
const seconds = (performance.now() - startedAtMs) / 1_000;
process.stdout.write(`${JSON.stringify({ synced: synced.subscriptions?.synced ?? 0, seconds })}\n`);
await sync.close();
