/**
 * What is stored of a stream when its poll begins. The statement that started the run has usually read it already; each
 * cursor of that is used once, because the run moves it later. Otherwise a query reads it.
 */

import { noCursor, readCursor } from '../../erp/pull/cursors.ts';
import { readFreshness } from '../../erp/pull/freshness.ts';
import { isEventful } from '../../erp/runs/ledger.ts';
import type { Cursor, CursorPass, Freshness } from '../../erp/runs/stored-stream.ts';
import type { PullContext } from './pull-context.ts';

type PollContext = Pick<PullContext, 'client' | 'db' | 'run' | 'state'>;

/** Reads how fresh a stream was before its poll. Call it once, at the beginning of the poll. */
export async function readFreshnessBefore({ client, db, run }: PollContext, stream: string): Promise<Freshness> {
  return run.stored?.freshness ?? readFreshness(db, client, stream);
}

/** Reads the cursor with which a pass begins. */
export async function readCursorBefore(
  { client, db, run, state }: PollContext,
  stream: string,
  pass: CursorPass,
): Promise<Cursor> {
  if (run.stored === null || state.begun.has(pass)) return readCursor(db, client, stream, pass);
  state.begun.add(pass);
  return run.stored.cursors.get(pass) ?? noCursor;
}

/**
 * Returns false if no resource of the stream waits to be reread or is in quarantine: nothing waited when the run began,
 * and the run has written nothing since. What somebody else adds meanwhile is left to the next poll.
 */
export const mayWait = ({ run, state }: PollContext): boolean =>
  run.stored === null || run.stored.isWaiting || isEventful(state.totals);
