import { describe, expect, test } from 'vitest';
import { operations } from '../../config/operations.ts';
import { runInProcess } from '../../src/push/check-process.ts';
import { makeBomb } from '../helpers/document-bomb.ts';
import { usePushes } from '../helpers/pusher.ts';
import { waitFor } from '../helpers/wait.ts';

const { outbox } = usePushes();

const bombTask = {
  do: 'check payload',
  kind: 'order_attachment.create',
  payload: JSON.stringify({ filename: 'a.pdf', content: makeBomb() }),
  reference: 'SO-1',
  operations,
  known: { lists: null, lacks: false },
} as const;

describe('a document that takes too much time or memory to read', () => {
  test('makes its row dead and does not block the event loop', async () => {
    const id = await outbox.insertOrder('SO-1', {
      attachments: [{ filename: 'a.pdf', content: makeBomb() }],
    });
    const other = await outbox.insertOrder('SO-2');
    const pushed = outbox.push();
    await waitFor('the other row to be done while the document is still being read', async () => {
      const [row, next] = [await outbox.row(id), await outbox.row(other)];
      return next.status === 'done' && row.status === 'sending';
    });
    await pushed;
    expect(await outbox.row(id)).toMatchObject({
      status: 'dead',
      last_error: expect.stringContaining(
        'attachments[0].content: is a pdf document that cannot be read',
      ),
    });
  });

  test('does not prevent a worker from stopping', async () => {
    const stop = new AbortController();
    const reading = runInProcess(bombTask, { owner: 'test', signal: stop.signal });
    stop.abort();
    await expect(reading).rejects.toMatchObject({ code: 'stopped' });
  });
});
