import { describe, expect, test } from 'vitest';
import { migrateDatabase } from '../../../src/app/commands/migrate.ts';
import { silentLogger } from '../../../src/app/logging/logger.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { dailyJobs, done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';
import { callStatements } from '../../helpers/schema/call-statements.ts';
import { crowdedLines } from '../../helpers/schema/clauses.ts';
import { findTemplates } from '../../helpers/schema/templates.ts';
import { watchTemplates } from '../../helpers/schema/watch-templates.ts';

/** Read every ten seconds while an index is built online: no test waits for that. */
const notExecuted = ['src/erp/schema/migration-locks.ts'];

const templates = findTemplates();
const executed = new Set<string>();

/** Does something, and compares what each statement returned with the type of its template. */
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

test('every template states more than its values', () => {
  expect(templates.length).toBeGreaterThan(20);
  const bare = templates.filter(({ parts }) => parts.join('').trim().length < 15);
  expect(bare.map(({ place }) => place)).toEqual([]);
});

test('every template of more than one line has one clause per line', () => {
  const crowded = templates.flatMap(({ place, parts }) =>
    crowdedLines(parts.join('?')).map((line) => `${place}: ${line}`),
  );
  expect(crowded).toEqual([]);
});

describe('each template returns the columns that its type states', () => {
  const database = useDatabase();
  const sandbox = useSandbox(['default'], lively);
  const pull = usePuller(database, sandbox);
  const outbox = usePusher(database, sandbox);

  test('in a day of polls and pushes, and for an operator', async () => {
    await compareWhile(async () => {
      await sandbox.advance(10 * 86_400);
      for (const job of [...dailyJobs, 'backfill'] as const) done(await pull(job));
      await outbox.insert('order.create', 'NEW', orderPayload('NEW'));
      await outbox.push();
      const waiting = await outbox.insert('order.create', 'WAITING', orderPayload('WAITING'));
      await callStatements(database.db, database.url, waiting);
    });
  });
});

describe('each template of a migration returns the columns that its type states', () => {
  const database = useDatabase({ migrated: false });

  test('from an empty database', () =>
    compareWhile(async () => void (await migrateDatabase(database.url, silentLogger))));
});

test('no template is left out', () => {
  const left = templates.filter(({ place }) => !executed.has(place)).map(({ place }) => place.replace(/:\d+$/, ''));
  expect(left).toEqual(notExecuted);
});
