/**
 * How long a claim takes: with 100,000 rows of one lane, and beside 1,000,000 rows that are done.
 * `npm run --silent bench:outbox-claim`
 */
import { Kysely, PostgresDialect, sql } from 'kysely';
import pg from 'pg';
import { migrateDatabase } from '../src/app/commands/migrate.ts';
import { startEmbeddedPostgres } from '../src/app/demo/embedded-postgres.ts';
import { createLogger } from '../src/app/log.ts';
import { poolConfig } from '../src/erp/connect.ts';
import { claimRows } from '../src/erp/outbox.ts';
import type { DB } from '../src/erp/rows.ts';

const options = {
  client: 'default',
  identity: 'bench',
  slots: 8,
  stamped: ['order.create'],
  lingering: { kinds: ['order.update', 'order.cancel'], ms: 60_000 },
};

const print = (text: string) => process.stdout.write(`${text}\n`);

class Undone extends Error {}

/** Claims, and undoes it; milliseconds of each. */
async function time(db: Kysely<DB>, rounds: number): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) {
    await db
      .transaction()
      .execute(async (trx) => {
        const startedAtMs = performance.now();
        await claimRows(trx, options);
        times.push(performance.now() - startedAtMs);
        throw new Undone();
      })
      .catch((error: unknown) => {
        if (!(error instanceof Undone)) throw error;
      });
  }
  return times.sort((a, b) => a - b);
}

/** The plans of the statements of one claim, with the last lines that matter. */
async function explain(db: Kysely<DB>, statements: { sql: string; parameters: readonly unknown[] }[], pool: pg.Pool) {
  statements.length = 0;
  await time(db, 1);
  for (const { sql: text, parameters } of statements.filter(({ sql: own }) => own.includes('with seen as'))) {
    const client = await pool.connect();
    try {
      await client.query('begin');
      const { rows } = await client.query<{ 'QUERY PLAN': string }>(`explain (analyze, buffers) ${text}`, [
        ...parameters,
      ]);
      await client.query('rollback');
      const plan = rows.map((row) => row['QUERY PLAN']);
      const wanted = /Scan on seen|outbox_|outbox [ob]|Execution Time|LockRows/;
      print(`  window ${String(parameters.find((value) => value === 32 || value === 100))}:`);
      print(
        `${plan
          .filter((line, index) => index < 3 || wanted.test(line))
          .map((line) => `    ${line}`)
          .join('\n')}`,
      );
    } finally {
      client.release();
    }
  }
}

async function main(): Promise<void> {
  const postgres = await startEmbeddedPostgres();
  const pool = new pg.Pool(poolConfig(postgres.url, 'bench', 2));
  const statements: { sql: string; parameters: readonly unknown[] }[] = [];
  const db = new Kysely<DB>({
    dialect: new PostgresDialect({ pool }),
    log: (event) => void statements.push({ sql: event.query.sql, parameters: event.query.parameters }),
  });
  try {
    await migrateDatabase(postgres.url, createLogger({ level: 'silent', pretty: false }));
    const report = async (name: string) => {
      const times = await time(db, 21);
      const at = (share: number) => (times[Math.floor(times.length * share)] ?? 0).toFixed(1);
      print(`${name}: median ${at(0.5)} ms, slowest ${at(0.999)} ms of ${times.length} claims`);
      await explain(db, statements, pool);
    };
    await sql`insert into fulfilment.outbox (kind, reference)
      select 'order.update', 'SO-1' from generate_series(1, 100000)`.execute(db);
    await report('100,000 rows of one lane, no statistics yet');
    await sql`analyze fulfilment.outbox`.execute(db);
    await report('100,000 rows of one lane');
    await sql`update fulfilment.outbox set status = 'dead', last_error = 'x', next_attempt_at = null, finished_at = now()
      where id = (select min(id) from fulfilment.outbox)`.execute(db);
    await report('100,000 rows of one lane behind a dead one');
    await sql`truncate fulfilment.outbox cascade`.execute(db);
    await sql`insert into fulfilment.outbox (kind, reference, status, next_attempt_at, finished_at, result)
      overriding system value select 'order.create', 'SO-' || n, 'done', null, now(), '{}' from generate_series(1, 1000000) n`.execute(
      db,
    );
    await sql`insert into fulfilment.outbox (kind, reference)
      select 'order.create', 'NEW-' || n from generate_series(1, 1000) n`.execute(db);
    await report('1,000 rows due beside 1,000,000 done');
  } finally {
    await db.destroy();
    await postgres.stop();
  }
}

await main();
