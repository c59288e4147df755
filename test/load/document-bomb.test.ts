import { describe, expect, test } from 'vitest';
import { findDocumentProblem } from '../../src/push/check-document.ts';
import { useDatabase } from '../helpers/database.ts';
import { orderPayload } from '../helpers/order-payload.ts';
import { usePusher } from '../helpers/pusher.ts';
import { quiet, useSandbox } from '../helpers/sandbox.ts';
import { waitFor } from '../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);

describe('a document that takes too much time or memory to read', () => {
  /** Returns a PDF in base64 whose page tree has more than 2^30 leaves, written in a few lines. */
  const makeBomb = () => {
    const levels = 30;
    const nodes = Array.from(
      { length: levels },
      (_, level) =>
        `${level + 3} 0 obj <</Type/Pages/Count 2/Kids[${level + 4} 0 R ${level + 4} 0 R]>> endobj`,
    );
    const leaf = `${levels + 3} 0 obj <</Type/Page/MediaBox[0 0 595 842]>> endobj`;
    const head =
      '%PDF-1.4\n1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj\n2 0 obj <</Type/Pages/Count 2/Kids[3 0 R 3 0 R]>> endobj';
    return Buffer.from(
      `${head}\n${nodes.join('\n')}\n${leaf}\ntrailer <</Root 1 0 R>>\n%%EOF`,
    ).toString('base64');
  };

  test('makes its row dead and does not block the event loop', async () => {
    const id = await outbox.insert(
      'order.create',
      'SO-1',
      orderPayload('SO-1', { attachments: [{ filename: 'a.pdf', content: makeBomb() }] }),
    );
    const other = await outbox.insert('order.create', 'SO-2', orderPayload('SO-2'));
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
    const reading = findDocumentProblem(makeBomb(), stop.signal);
    stop.abort();
    await expect(reading).rejects.toMatchObject({ code: 'stopped' });
  });
});
