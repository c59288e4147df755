import { beforeEach, expect, test } from 'vitest';
import {
  describeOperation,
  type Resource,
  readOne,
  titles,
  useClient,
} from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);
const zulu = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
let today = '';

beforeEach(async () => {
  today = new Date(Date.parse((await client.ask('common.status.get')).date))
    .toISOString()
    .slice(0, 10);
});

const slipBody = (attributes: object = {}, quantity = 10, skus = ['MUG-BLUE', 'TEA-500']) => ({
  data: {
    type: 'inboundPackingSlip',
    attributes: {
      expectedIn: 'EIN',
      expectedOn: today,
      reference: 'PO 1',
      comments: 'fragile',
      metadata: { serviceLevel: 'fast', purchases: 'P', reference: 'M' },
      ...attributes,
    },
  },
  included: skus.map((sku) => ({
    type: 'inboundPackingSlipItem',
    attributes: { sku, quantity },
  })),
});
const announce = (attributes: object = {}, quantity = 10) =>
  client.ask('v3.inboundPackingSlips.create', { body: slipBody(attributes, quantity) });
const listSlips = async (query = '') =>
  (await client.ask('v3.inboundPackingSlips.list', { query })).body.data;
const listInbounds = async (query = '') =>
  (await client.ask('v3.inbounds.list', { query })).body.data;
const allSlips = 'include=inboundPackingSlipItems';

describeOperation('v3.inboundPackingSlips.create', () => {
  test('creates a slip and its items in one call', async () => {
    const made = readOne(await announce());
    expect(made.attributes).toEqual({
      expectedIn: 'EIN',
      expectedOn: today,
      receivedOn: null,
      completedOn: null,
      reference: 'PO 1',
      status: 'EXPECTED',
      comments: 'fragile',
      metadata: { serviceLevel: 'fast', purchases: 'P', reference: 'M' },
    });
    expect(made.relationships.inbound?.data).toBeNull();
    expect(made.included?.map(({ attributes }) => attributes)).toEqual([
      { sku: 'MUG-BLUE', quantity: 10, received: 0 },
      { sku: 'TEA-500', quantity: 10, received: 0 },
    ]);
    expect(await listSlips(allSlips)).toEqual([made]);
  });

  test('refuses an unknown product until it is added; then the slip brings its first stock', async () => {
    const body = slipBody({}, 10, ['NEW-1']);
    const refused = await client.ask('v3.inboundPackingSlips.create', { body });
    expect([refused.status, titles(refused)]).toEqual([
      422,
      expect.stringContaining('the sku NEW-1: add it first'),
    ]);
    const readStock = async () =>
      (await client.ask('oldest.stock.get', { path: { sku: 'NEW-1' } })).body.result;
    await client.ask('oldest.product.add', { body: { Sku: 'NEW-1', Name: 'New' } });
    expect(await readStock()).toBe(0);
    await client.ask('v3.inboundPackingSlips.create', { body });
    await sandbox.advanceUntil(async () => Number(await readStock()) > 0);
  });
});

describeOperation('v3.inboundPackingSlips.list', () => {
  test('lists a slip that is received in parts, through every state; times are in UTC', async () => {
    await announce();
    const [states, counts]: [Set<unknown>, Set<number>] = [new Set(), new Set()];
    await sandbox.advanceUntil(async () => {
      const [slip] = await listSlips(allSlips);
      states.add(slip?.attributes.status);
      const received = slip?.included?.map(({ attributes }) => Number(attributes.received)) ?? [];
      counts.add(received.reduce((sum, count) => sum + count, 0));
      return slip?.attributes.status === 'COMPLETED';
    }, 1);
    expect([...states]).toEqual(['EXPECTED', 'IN_PROGRESS', 'CHECKING', 'COMPLETED']);
    expect(counts.size).toBeGreaterThan(2);
    expect(Math.max(...counts)).toBeGreaterThanOrEqual(18);
    const [slip] = await listSlips();
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
    const second = readOne(await announce({ expectedOn: '2040-01-01' })).id;
    const ids = async (query: string) => (await listSlips(query)).map(({ id }) => id);
    expect(await ids('filter[status][in]=EXPECTED,CHECKING')).toEqual([second]);
    expect(await ids('')).toEqual([first, second]);
    // The filter takes days of the warehouses' time zone, although times are in UTC.
    const day = async (member: string) =>
      new Date(String((await listSlips())[0]?.attributes[member])).toLocaleDateString('sv-SE', {
        timeZone: 'Europe/Amsterdam',
      });
    const shifted = (date: string, days: number) =>
      new Date(Date.parse(date) + days * 86_400_000).toISOString().slice(0, 10);
    for (const member of ['receivedOn', 'completedOn']) {
      const on = await day(member);
      expect(
        await ids(
          `filter[${member}][gt]=${shifted(on, -1)}&filter[${member}][lt]=${shifted(on, 1)}`,
        ),
      ).toEqual([first]);
      expect(await ids(`filter[${member}][gt]=${on}`)).toEqual([]);
      expect(await ids(`filter[${member}][lt]=${on}`)).toEqual([]);
    }
  });
});

describeOperation('v3.inbounds.list', () => {
  test('lists the inbound of a slip, through every state; items are inside, without a link', async () => {
    const slip = readOne(await announce());
    const states = new Set<unknown>();
    await sandbox.advanceUntil(async () => {
      const [inbound] = await listInbounds();
      states.add(inbound?.attributes.status);
      return inbound?.attributes.status === 'COMPLETED';
    }, 1);
    expect([...states]).toEqual([undefined, 'PROCESSING', 'CHECKING', 'CHECKED', 'COMPLETED']);
    const [inbound] = await listInbounds('include=inboundItems');
    expect(inbound?.attributes).toEqual({
      reference: 'PO 1',
      status: 'COMPLETED',
      receivedIn: 'EIN',
      createdOn: expect.stringMatching(zulu),
      checkingOn: expect.stringMatching(zulu),
      completedOn: expect.stringMatching(zulu),
    });
    expect(inbound?.relationships).toEqual({
      inboundPackingSlip: { data: { id: slip.id, type: 'inboundPackingSlip' } },
    });
    const tea = inbound?.included?.find(({ attributes }) => attributes.sku === 'TEA-500');
    expect(tea).toMatchObject({
      type: 'inboundItem',
      attributes: {
        lotNumber: expect.any(String),
        expirationDate: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
      },
      relationships: { inboundPackingSlipItem: { data: { id: slip.included?.[1]?.id } } },
    });
    expect((await listSlips())[0]?.relationships.inbound?.data.id).toBe(inbound?.id);
  });
});

describeOperation('v3.inbounds.get', () => {
  test('answers one inbound, with its items if they are asked for', async () => {
    await announce();
    await sandbox.advanceUntil(
      async () => (await listInbounds('filter[status][in]=CHECKED')).length > 0,
      1,
    );
    const [listed] = await listInbounds('include=inboundItems');
    const id = listed?.id ?? 0;
    expect(
      readOne(await client.ask('v3.inbounds.get', { path: { id }, query: 'include=inboundItems' })),
    ).toEqual(listed);
    expect(readOne(await client.ask('v3.inbounds.get', { path: { id } })).included).toBeUndefined();
    expect((await client.ask('v3.inbounds.get', { path: { id: 9 } })).status).toBe(404);
  });
});

describeOperation('v3.inboundItems.get', () => {
  test('answers the resource itself, not wrapped in data', async () => {
    await announce();
    await sandbox.advanceUntil(
      async () => (await listInbounds('filter[status][in]=CHECKED')).length > 0,
      1,
    );
    const item = (await listInbounds('include=inboundItems'))[0]?.included?.[0] as Resource;
    expect((await client.ask('v3.inboundItems.get', { path: { id: item.id } })).body).toEqual(item);
    expect((await client.ask('v3.inboundItems.get', { path: { id: 9 } })).status).toBe(404);
  });
});
