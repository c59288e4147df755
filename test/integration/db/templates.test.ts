import { describe, expect, test } from 'vitest';
import { migrateDatabase } from '../../../src/cli/commands/migrate.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { migrate } from '../../../src/db/migrate.ts';
import { readKnownMigrations } from '../../../src/db/migration-files.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { dailyJobs, done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';
import { callStatements } from '../../helpers/schema/call-statements.ts';
import { findTemplates } from '../../helpers/schema/templates.ts';
import { watchTemplates } from '../../helpers/schema/watch-templates.ts';

/**
 * Files whose template runs every ten seconds while an index is built online. No test waits for
 * that.
 */
const notExecuted = ['src/db/migrate.ts'];

const templates = findTemplates();
const executed = new Set<string>();

/** Does `work`, and compares what each statement returns with the type of its template. */
async function compareWhile(work: () => Promise<void>): Promise<void> {
  const watched = watchTemplates(templates);
  try {
    await work();
  } finally {
    watched.end();
  }
  for (const place of watched.executed) executed.add(place);
  expect([...watched.problems]).toEqual([]);
}

describe('each template returns the columns that its type states', () => {
  const database = useDatabase();
  const sandbox = useSandbox(['default'], lively);
  const pull = usePuller(database, sandbox);
  const outbox = usePusher(database, sandbox);

  test('in a day of polls and pushes, and for an operator', async () => {
    // Connections that are open already would run statements unseen.
    await database.endRuns();
    await compareWhile(async () => {
      await sandbox.advance(10 * 86_400);
      for (const job of [...dailyJobs, 'backfill'] as const) done(await pull(job));
      await outbox.insert('order.create', 'NEW', orderPayload('NEW'));
      // An order that waits for its product.
      await database.query(`
        insert into fulfilment.outbox (kind, reference, not_before)
        values ('product.save', 'LATER', now() + interval '1 day')`);
      const items = [{ sku: 'LATER', quantity: 1 }];
      await outbox.insert('order.create', 'BEHIND', orderPayload('BEHIND', { items }));
      await outbox.push();
      const waiting = await outbox.insert('order.create', 'WAITING', orderPayload('WAITING'));
      await callStatements(database.db, database.url, waiting);
    });
  });
});

describe('each template of a migration returns the columns that its type states', () => {
  const database = useDatabase({ migrated: false });

  test('from an empty database, with a migration that builds an index online', () =>
    compareWhile(async () => {
      await migrateDatabase(database.url, silentLogger);
      const text =
        'create index concurrently if not exists later on fulfilment.orders (reference);';
      const files = [...(await readKnownMigrations()), { name: '9999_later', text, online: true }];
      await migrate(database.db, 'test', { files });
    }));
});

test('every template with a type was executed', () => {
  const unexecuted = templates
    .filter(({ place }) => !executed.has(place))
    .map(({ place }) => place.replace(/:\d+$/, ''));
  expect(unexecuted).toEqual(notExecuted);
});
