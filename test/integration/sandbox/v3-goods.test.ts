import { expect, test } from 'vitest';
import { describeOperation, readOne, titles, useClient } from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);
const zulu = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

const slipBody = (expectedOn: string, skus: readonly string[]) => ({
  data: {
    type: 'inboundPackingSlip',
    attributes: { expectedIn: 'EIN', expectedOn, reference: 'PO 1', metadata: { purchases: 'P' } },
  },
  included: skus.map((sku) => ({
    type: 'inboundPackingSlipItem',
    attributes: { sku, quantity: 10 },
  })),
});
const announce = (expectedOn = '2026-05-04', skus = ['MUG-BLUE', 'TEA-500']) =>
  client.ask('v3.inboundPackingSlips.create', { body: slipBody(expectedOn, skus) });
const listSlips = async (query = 'include=inboundPackingSlipItems') =>
  (await client.ask('v3.inboundPackingSlips.list', { query })).body.data;
const listInbounds = async (query = 'include=inboundItems') =>
  (await client.ask('v3.inbounds.list', { query })).body.data;

/** Announces a slip, and advances the time until its goods are checked. Returns the inbound. */
async function receive() {
  await announce();
  await sandbox.advanceUntil(
    async () => (await listInbounds('filter[status][in]=CHECKED,COMPLETED')).length > 0,
  );
  return (await listInbounds())[0];
}

describeOperation('v3.inboundPackingSlips.create', () => {
  test('creates a slip and its items in one call', async () => {
    const made = readOne(await announce());
    expect(made.attributes).toMatchObject({
      ...{ expectedIn: 'EIN', expectedOn: '2026-05-04', receivedOn: null, reference: 'PO 1' },
      ...{ status: 'EXPECTED', metadata: { purchases: 'P' } },
    });
    expect(made.relationships.inbound?.data).toBeNull();
    expect(made.included?.map(({ attributes }) => attributes)).toEqual([
      { sku: 'MUG-BLUE', quantity: 10, received: 0 },
      { sku: 'TEA-500', quantity: 10, received: 0 },
    ]);
    expect(await listSlips()).toEqual([made]);
  });

  test('refuses an unknown product until it is added; then the slip brings its first stock', async () => {
    const refused = await announce('2026-05-04', ['NEW-1']);
    expect([refused.status, titles(refused)]).toEqual([
      422,
      expect.stringContaining('the sku NEW-1: add it first'),
    ]);
    const readStock = async () =>
      (await client.ask('oldest.stock.get', { path: { sku: 'NEW-1' } })).body.result;
    await client.ask('oldest.product.add', { body: { Sku: 'NEW-1', Name: 'New' } });
    expect(await readStock()).toBe(0);
    await announce('2026-05-04', ['NEW-1']);
    await sandbox.advanceUntil(async () => Number(await readStock()) > 0);
  });
});

describeOperation('v3.inboundPackingSlips.list', () => {
  test('lists a slip and its inbound through every state, until the slip is too old', async () => {
    const { id } = readOne(await announce());
    const [states, counts, inboundStates] = [new Set(), new Set<number>(), new Set()];
    await sandbox.advanceUntil(async () => {
      const [slip] = await listSlips();
      states.add(slip?.attributes.status);
      const received = slip?.included?.map(({ attributes }) => Number(attributes.received)) ?? [];
      counts.add(received.reduce((sum, count) => sum + count, 0));
      const [inbound] = await listInbounds('');
      inboundStates.add(inbound?.attributes.status);
      return slip?.attributes.status === 'COMPLETED' && inbound?.attributes.status === 'COMPLETED';
    }, 1);
    expect([...states]).toEqual(['EXPECTED', 'IN_PROGRESS', 'CHECKING', 'COMPLETED']);
    expect(counts.size).toBeGreaterThan(2);
    expect([...inboundStates]).toEqual([
      ...[undefined, 'PROCESSING', 'CHECKING'],
      ...['CHECKED', 'COMPLETED'],
    ]);

    // A slip that is received in parts has an inbound for each part.
    const inbounds = await listInbounds('');
    for (const { relationships } of inbounds)
      expect(relationships.inboundPackingSlip?.data.id).toBe(id);
    const [slip] = await listSlips('');
    expect(inbounds.map((inbound) => inbound.id)).toContain(slip?.relationships.inbound?.data.id);
    expect(slip?.attributes).toMatchObject({
      receivedOn: expect.stringMatching(zulu),
      completedOn: expect.stringMatching(zulu),
    });
    await sandbox.advance(92 * 86_400);
    expect(await listSlips()).toEqual([]);
  });

  test('filters by status and by exclusive days of receipt and completion', async () => {
    const first = readOne(await announce()).id;
    await sandbox.advanceUntil(
      async () => (await listSlips('filter[status][in]=COMPLETED')).length === 1,
    );
    const second = readOne(await announce('2040-01-01')).id;
    const ids = async (query: string) => (await listSlips(query)).map(({ id }) => id);
    expect(await ids('filter[status][in]=EXPECTED,CHECKING')).toEqual([second]);
    expect(await ids('')).toEqual([first, second]);

    const [slip] = await listSlips();
    for (const member of ['receivedOn', 'completedOn']) {
      // The filter takes days of the warehouses' time zone, although times are in UTC.
      const day = (days: number) =>
        new Date(
          Date.parse(String(slip?.attributes[member])) + days * 86_400_000,
        ).toLocaleDateString('sv-SE', { timeZone: 'Europe/Amsterdam' });
      const filter = `filter[${member}]`;
      expect(await ids(`${filter}[gt]=${day(-1)}&${filter}[lt]=${day(1)}`)).toEqual([first]);
      expect(await ids(`${filter}[gt]=${day(0)}`)).toEqual([]);
      expect(await ids(`${filter}[lt]=${day(0)}`)).toEqual([]);
    }
  });
});

describeOperation('v3.inbounds.list', () => {
  test('has the items inside, with lots; times are in UTC', async () => {
    const inbound = await receive();
    expect(inbound?.attributes).toMatchObject({
      ...{ reference: 'PO 1', receivedIn: 'EIN' },
      ...{ createdOn: expect.stringMatching(zulu), checkingOn: expect.stringMatching(zulu) },
    });
    const tea = inbound?.included?.find(({ attributes }) => attributes.sku === 'TEA-500');
    expect(tea?.attributes).toMatchObject({
      lotNumber: expect.any(String),
      expirationDate: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
    });
    const [slip] = await listSlips();
    expect(tea?.relationships.inboundPackingSlipItem?.data.id).toBe(slip?.included?.[1]?.id);
  });
});

describeOperation('v3.inbounds.get', () => {
  test('answers one inbound, with its items if they are asked for', async () => {
    const listed = await receive();
    const get = (id = 0, query = '') => client.ask('v3.inbounds.get', { path: { id }, query });
    expect(readOne(await get(listed?.id, 'include=inboundItems'))).toEqual(listed);
    expect(readOne(await get(listed?.id)).included).toBeUndefined();
    expect((await get(9)).status).toBe(404);
  });
});

describeOperation('v3.inboundItems.get', () => {
  test('answers the resource itself, not wrapped in data', async () => {
    const item = (await receive())?.included?.[0];
    const get = (id = 0) => client.ask('v3.inboundItems.get', { path: { id } });
    expect((await get(item?.id)).body).toEqual(item);
    expect((await get(9)).status).toBe(404);
  });
});
