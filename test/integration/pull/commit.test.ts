import { expect, test } from 'vitest';
import { commitReading } from '../../../src/pull/commit.ts';
import { decodePage } from '../../../src/pull/decode.ts';
import { drawReadNo } from '../../../src/pull/sql/stream-transaction.ts';
import { toPullContext } from '../../../src/pull/stream.ts';
import { shipments } from '../../../src/pull/streams/shipments.ts';
import type { RunContext } from '../../../src/schedule/run.ts';
import { decodeDocument } from '../../../src/service/decoding/jsonapi.ts';
import { encodeQuery } from '../../../src/service/transport/query.ts';
import { ServiceClient } from '../../helpers/client.ts';
import { done, usePulls } from '../../helpers/puller.ts';
import { quiet } from '../../helpers/sandbox.ts';

const { database, sandbox, pull, work } = usePulls(quiet);

interface Shipment {
  readonly id: number;
  readonly attributes: Record<string, unknown>;
}

async function listShipments(): Promise<Shipment[]> {
  const client = new ServiceClient(sandbox, 'default');
  await client.logIn();
  const query = encodeQuery({ include: shipments.include });
  return (await client.ask(shipments.list, { query })).body.data as unknown as Shipment[];
}

/** Commits shipments as one page of a list. */
async function commit(context: RunContext, data: readonly Shipment[], readNo?: number) {
  const document = decodeDocument(shipments.list, JSON.stringify({ data }), 'list');
  const decoded = await decodePage(document, shipments.decoder(context.zone));
  const reading = {
    ...{ readNo: readNo ?? (await drawReadNo(context.db)), decoded },
    ...{ pages: 1, received: document.data.length },
  };
  return commitReading(toPullContext(context, shipments), reading, async (_, page) => page);
}

const readStored = async () => await database.ids('fulfilment.shipments');

test('a resource that only the database refuses is quarantined; the others are stored', async () => {
  await sandbox.seed(5);
  const data = await listShipments();
  const [bad, ...good] = data;
  if (bad === undefined) throw new Error('no shipment');
  bad.attributes.weight = JSON.rawJSON(`0.${'1'.repeat(20_000)}`);

  const report = await work('refetch', async (context) => {
    for (let turn = 1; turn <= 2; turn++) {
      const page = await commit(context, data);
      expect(page?.quarantined.map(({ resourceId }) => resourceId)).toEqual([bad.id]);
      expect(await readStored()).toEqual(good.map(({ id }) => id).sort((a, b) => a - b));
    }
  });
  done(report);
  expect(
    await database.query('select resource_id::int as id, reason, times from sync.quarantine'),
  ).toEqual([{ id: bad.id, reason: 'cannot be stored in Postgres (SQLSTATE 22003)', times: 2 }]);
});

test('an older page of a rescan changes nothing that a poll found unchanged meanwhile', async () => {
  await sandbox.seed(1, { statuses: ['READY_TO_PICK'] });
  done(await pull('pull-shipments'));
  const [shipment] = await listShipments();
  if (shipment === undefined) throw new Error('no shipment');

  const report = await work('reconcile', async (context) => {
    const readNo = await drawReadNo(context.db);
    done(await pull('pull-shipments'));
    shipment.attributes.warehouseCode = 'OLD';
    await commit(context, [shipment], readNo);
  });
  expect(done(report)).toMatchObject({ updated: 0, stale: 1 });
});
