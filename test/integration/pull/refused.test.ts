import { expect, test } from 'vitest';
import { commitReading } from '../../../src/pull/commit.ts';
import { decodePage } from '../../../src/pull/decode.ts';
import { drawReadNo } from '../../../src/pull/sql/stream-transaction.ts';
import { toPullContext } from '../../../src/pull/stream.ts';
import { shipments } from '../../../src/pull/streams/shipments.ts';
import { decodeDocument } from '../../../src/service/decoding/jsonapi.ts';
import { encodeQuery } from '../../../src/service/transport/query.ts';
import { ServiceClient } from '../../helpers/client.ts';
import { useDatabase } from '../../helpers/database.ts';
import { done, useWork } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const work = useWork(database, sandbox);

test('a resource that only the database refuses is quarantined; the others are stored', async () => {
  await sandbox.seed(5);
  const client = new ServiceClient(sandbox, 'default');
  await client.logIn();
  const { body } = await client.ask(shipments.list, {
    query: encodeQuery({ include: shipments.include }),
  });
  const data = body.data as unknown as { id: number; attributes: Record<string, unknown> }[];
  const [bad, ...good] = data;
  if (bad === undefined) throw new Error('no shipment');
  bad.attributes.weight = JSON.rawJSON('1e999999');
  const document = decodeDocument(shipments.list, JSON.stringify({ data }), 'list');
  const stored = async () =>
    (
      await database.query<{ id: number }>('select id::int from fulfilment.shipments order by id')
    ).map(({ id }) => id);
  done(
    await work('refetch', async (context) => {
      for (let turn = 1; turn <= 2; turn++) {
        const readNo = await drawReadNo(context.db);
        const decoded = await decodePage(document, shipments.decoder(context.zone));
        const reading = { readNo, pages: 1, received: document.data.length, decoded };
        const pull = toPullContext(context, shipments);
        const page = await commitReading(pull, reading, async (_transaction, read) => read);
        expect(page?.quarantined.map(({ resourceId }) => resourceId)).toEqual([bad.id]);
        expect(await stored()).toEqual(good.map(({ id }) => id).sort((a, b) => a - b));
      }
    }),
  );
  expect(
    await database.query('select resource_id::int as id, reason, times from sync.quarantine'),
  ).toEqual([{ id: bad.id, reason: 'cannot be stored in Postgres (SQLSTATE 22003)', times: 2 }]);
});
