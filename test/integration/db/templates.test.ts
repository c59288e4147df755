import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { dailyJobs, done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';
import { callStatements } from '../../helpers/schema/call-statements.ts';
import { findTemplates } from '../../helpers/schema/templates.ts';
import { findFittingTemplates, watchTemplates } from '../../helpers/schema/watch-templates.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const pull = usePuller(database, sandbox);
const outbox = usePusher(database, sandbox);

test('each template returns the columns that its type states', async () => {
  const templates = findTemplates();
  const fitting = await findFittingTemplates(templates, database.url);

  // Connections that are open already would run statements unseen.
  await database.endRuns();
  const watched = watchTemplates(templates.filter(({ place }) => !fitting.includes(place)));
  try {
    await sandbox.advance(10 * 86_400);
    for (const job of [...dailyJobs, 'backfill'] as const) done(await pull(job));
    await outbox.insertOrder('NEW');
    await outbox.push();
    const waiting = await outbox.insertOrder('WAITING');
    await callStatements(database.db, waiting);
  } finally {
    watched.end();
  }

  expect([...watched.problems]).toEqual([]);
  const seen = new Set([...fitting, ...watched.executed]);
  const unseen = templates.filter(({ place }) => !seen.has(place));
  expect(unseen.map(({ place }) => place)).toEqual([]);
});
