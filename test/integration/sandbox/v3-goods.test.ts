import { beforeEach, expect, test } from 'vitest';
import { describeOperation, one, type Resource, titles, useClient } from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);
const zulu = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
let today = '';

beforeEach(async () => {
  today = new Date(Date.parse((await client.ask('common.status.get')).date)).toISOString().slice(0, 10);
});

const slipBody = (attributes: object = {}, quantity = 10) => ({
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
  included: ['MUG-BLUE', 'TEA-500'].map((sku) => ({
    type: 'inboundPackingSlipItem',
    attributes: { sku, quantity },
  })),
});
const announce = (attributes: object = {}, quantity = 10) =>
  client.ask('v3.inboundPackingSlips.create', { body: slipBody(attributes, quantity) });
const slips = async (query = '') => (await client.ask('v3.inboundPackingSlips.list', { query })).body.data;
const inbounds = async (query = '') => (await client.ask('v3.inbounds.list', { query })).body.data;
const allSlips = 'include=inboundPackingSlipItems';

/** Goes on hour by hour until something holds. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  for (let hours = 0; hours < 24 * 14; hours++) {
    if (await holds()) return;
    await sandbox.advance(3_600);
  }
  throw new Error('it did not come to pass within two weeks');
}

describeOperation('v3.inboundPackingSlips.create', () => {
  test('slip and items in one call', async () => {
    const made = one(await announce());
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
    expect(await slips(allSlips)).toEqual([made]);
  });

  test.each<[object, number, string]>([
    [{ expectedIn: 'ROT' }, 10, '/data/attributes/expectedIn'],
    [{ expectedOn: 'soon' }, 10, '/data/attributes/expectedOn'],
    [{ metadata: { other: 'x' } }, 10, '/data/attributes/metadata'],
    [{}, 0, '/included/0/attributes/quantity'],
  ])('%j with quantity %i is refused at %s', async (attributes, quantity, pointer) => {
    const answer = await announce(attributes, quantity);
    expect(answer.body.errors[0]?.source?.pointer).toBe(pointer);
    expect(await slips()).toEqual([]);
  });

  test('without items it is refused', async () => {
    const { data } = slipBody();
    expect(titles(await client.ask('v3.inboundPackingSlips.create', { body: { data } }))).toContain(
      'at least one item',
    );
  });
});

describeOperation('v3.inboundPackingSlips.list', () => {
  test('received in parts, through every state; times in Z', async () => {
    await announce();
    const [states, counts]: [Set<unknown>, Set<number>] = [new Set(), new Set()];
    await until(async () => {
      const [slip] = await slips(allSlips);
      states.add(slip?.attributes.status);
      const received = slip?.included?.map(({ attributes }) => Number(attributes.received)) ?? [];
      counts.add(received.reduce((sum, count) => sum + count, 0));
      return slip?.attributes.status === 'COMPLETED';
    });
    expect([...states]).toEqual(['EXPECTED', 'IN_PROGRESS', 'CHECKING', 'COMPLETED']);
    expect(counts.size).toBeGreaterThan(2);
    expect(Math.max(...counts)).toBeGreaterThanOrEqual(18);
    const [slip] = await slips();
    expect(slip?.attributes).toMatchObject({
      receivedOn: expect.stringMatching(zulu),
      completedOn: expect.stringMatching(zulu),
    });
  });

  test('by status and by the days of receipt and completion, exclusive', async () => {
    const first = one(await announce()).id;
    await until(async () => (await slips('filter[status][in]=COMPLETED')).length === 1);
    const second = one(await announce({ expectedOn: '2040-01-01' })).id;
    const ids = async (query: string) => (await slips(query)).map(({ id }) => id);
    expect(await ids('filter[status][in]=EXPECTED,CHECKING')).toEqual([second]);
    expect(await ids('')).toEqual([first, second]);
    // A day of the warehouses, though the time is told in Z.
    const day = async (member: string) =>
      new Date(String((await slips())[0]?.attributes[member])).toLocaleDateString('sv-SE', {
        timeZone: 'Europe/Amsterdam',
      });
    const shifted = (date: string, days: number) =>
      new Date(Date.parse(date) + days * 86_400_000).toISOString().slice(0, 10);
    for (const member of ['receivedOn', 'completedOn']) {
      const on = await day(member);
      expect(await ids(`filter[${member}][gt]=${shifted(on, -1)}&filter[${member}][lt]=${shifted(on, 1)}`)).toEqual([
        first,
      ]);
      expect(await ids(`filter[${member}][gt]=${on}`)).toEqual([]);
      expect(await ids(`filter[${member}][lt]=${on}`)).toEqual([]);
    }
  });

  test('older than 90 days they are not listed', async () => {
    await announce();
    await sandbox.advance(89 * 86_400);
    expect(await slips()).toHaveLength(1);
    await sandbox.advance(3 * 86_400);
    expect(await slips()).toEqual([]);
  });
});

describeOperation('v3.inbounds.list', () => {
  test('a slip becomes inbounds, through every state; items inside, without a link to them', async () => {
    const slip = one(await announce());
    const states = new Set<unknown>();
    await until(async () => {
      const [inbound] = await inbounds();
      states.add(inbound?.attributes.status);
      return inbound?.attributes.status === 'COMPLETED';
    });
    expect([...states]).toEqual([undefined, 'PROCESSING', 'CHECKING', 'CHECKED', 'COMPLETED']);
    const [inbound] = await inbounds('include=inboundItems');
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
      attributes: { lotNumber: expect.any(String), expirationDate: expect.stringMatching(/^\d{4}-\d\d-\d\d$/) },
      relationships: { inboundPackingSlipItem: { data: { id: slip.included?.[1]?.id } } },
    });
    expect((await slips())[0]?.relationships.inbound?.data.id).toBe(inbound?.id);
  });

  test('by status, of any age, by ascending id', async () => {
    await sandbox.call('POST', '/_sandbox/reset', { seed: 2, ordersPerDay: 68 });
    await client.logIn();
    await sandbox.advance(60 * 86_400);
    const all = await inbounds();
    const ids = all.map(({ id }) => id);
    expect(ids).toEqual([...ids].sort((left, right) => left - right));
    const completed = all.filter(({ attributes }) => attributes.status === 'COMPLETED');
    expect(await inbounds('filter[status][in]=COMPLETED')).toEqual(completed);
    expect(await inbounds('filter[status][in]=PROCESSING,CHECKING,CHECKED')).toHaveLength(
      all.length - completed.length,
    );
    await sandbox.advance(100 * 86_400);
    expect((await inbounds('page[size]=3')).map(({ id }) => id)).toEqual(ids.slice(0, 3));
    const unknown = await client.ask('v3.inbounds.list', { query: 'filter[status][in]=DONE' });
    expect(unknown.status).toBe(400);
  });
});

describeOperation('v3.inbounds.get', () => {
  test('one inbound', async () => {
    await announce();
    await until(async () => (await inbounds('filter[status][in]=CHECKED')).length > 0);
    const [listed] = await inbounds('include=inboundItems');
    const id = listed?.id ?? 0;
    expect(one(await client.ask('v3.inbounds.get', { path: { id }, query: 'include=inboundItems' }))).toEqual(listed);
    expect(one(await client.ask('v3.inbounds.get', { path: { id } })).included).toBeUndefined();
    expect((await client.ask('v3.inbounds.get', { path: { id: 9 } })).status).toBe(404);
  });
});

describeOperation('v3.inboundItems.get', () => {
  test('the resource itself, not wrapped in data', async () => {
    await announce();
    await until(async () => (await inbounds('filter[status][in]=CHECKED')).length > 0);
    const item = (await inbounds('include=inboundItems'))[0]?.included?.[0] as Resource;
    const { body } = await client.ask('v3.inboundItems.get', { path: { id: item.id } });
    expect(body).toEqual(item);
    expect((await client.ask('v3.inboundItems.get', { path: { id: 9 } })).status).toBe(404);
  });
});
