import { describe, expect, test } from 'vitest';
import { operations } from '../../../src/sandbox/operations/all.ts';
import { writePage } from '../../../src/sandbox/rules/pdf.ts';
import {
  type Answer,
  address,
  line,
  orderBody,
  readOne,
  ServiceClient,
  useClient,
} from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], {
  ...quiet,
  strict: false,
  unknownProducts: 'accept',
});
const owner = useClient(sandbox);
const stranger = useClient(sandbox, 'other');

/** Ids of the owner's resources. The stranger has none of them. */
interface OwnerResources {
  readonly order: number;
  readonly waitingOrder: number;
  readonly waitingItem: number;
  readonly shipment: number;
  readonly shipmentItem: number;
  readonly authorization: number;
  readonly inbound: number;
  readonly inboundItem: number;
}
let owned: OwnerResources;
const number = 'OWN-1';
const pdf = (await writePage(['Thank you'])).toString('base64');

const slip = (sku: string) => ({
  data: { type: 'inboundPackingSlip', attributes: { expectedIn: 'AMS', expectedOn: '2026-05-04' } },
  included: [{ type: 'inboundPackingSlipItem', attributes: { sku, quantity: 5 } }],
});
const authorization = (shipment: number, shipmentItem: number) => ({
  data: {
    type: 'returnMerchandiseAuthorization',
    attributes: { externalReference: 'R' },
    relationships: { shipment: { data: { id: shipment, type: 'shipment' } } },
  },
  included: [
    {
      type: 'returnMerchandiseAuthorizationItem',
      attributes: { quantity: 1, reasonCode: 'DAMAGED' },
      relationships: { shipmentItem: { data: { id: shipmentItem, type: 'shipmentItem' } } },
    },
  ],
});

const waitingNumber = 'OWN-2';

async function makeResources(): Promise<void> {
  const included = [line('OWN-SKU', 6), address('d'), address('b')];
  const body = orderBody(number, { attributes: { reference: 'OWN-REF' }, included });
  const order = readOne(await owner.ask('v3.orders.create', { body }));
  await owner.ask('v3.inboundPackingSlips.create', { body: slip('OWN-SKU') });
  const shipments = async () =>
    (await owner.ask('v3.shipments.list', { query: 'include=shipmentItems' })).body.data;
  await sandbox.advanceUntil(async () => (await shipments())[0]?.attributes.status === 'SHIPPED');
  const [shipment] = await shipments();
  const shipmentItem = shipment?.included?.[0]?.id ?? 0;
  const announce = async () => {
    const rma = await owner.ask('v3.returnMerchandiseAuthorizations.create', {
      body: authorization(shipment?.id ?? 0, shipmentItem),
    });
    return readOne(rma).id;
  };
  await announce();
  await sandbox.advanceUntil(
    async () => (await owner.ask('v3.returnItems.list')).body.data.length > 0,
  );
  // An order that waits, so that the robot does nothing with it.
  const onHold = { attributes: { onHold: true }, included };
  const second = readOne(
    await owner.ask('v3.orders.create', { body: orderBody(waitingNumber, onHold) }),
  );
  // A parcel that is with a carrier.
  await owner.ask('v3.orders.create', { body: orderBody('OWN-3', { included }) });
  await sandbox.advanceUntil(
    async () => ((await owner.ask('v2.shipment.trackTrace')).body.result as unknown[]).length > 0,
  );
  const [inbound] = (await owner.ask('v3.inbounds.list', { query: 'include=inboundItems' })).body
    .data;
  owned = {
    order: order.id,
    waitingOrder: second.id,
    waitingItem: second.included?.[0]?.id ?? 0,
    shipment: shipment?.id ?? 0,
    shipmentItem,
    authorization: await announce(),
    inbound: inbound?.id ?? 0,
    inboundItem: inbound?.included?.[0]?.id ?? 0,
  };
}

/** Makes the parts of a request. */
type Request = () => NonNullable<Parameters<ServiceClient['ask']>[1]>;
const patch = (type: string, id: number, attributes: object) => ({
  path: { id },
  body: { data: { id, type, attributes } },
});

/**
 * Requests for resources of the owner, by operation. Those that end the waiting order come after
 * its other requests.
 */
const attempts: Record<string, Request> = {
  'oldest.product.search': () => ({ body: { Sku: 'OWN-SKU' } }),
  'oldest.product.edit': () => ({
    body: { Sku: 'OWN-SKU', Name: 'Stolen' },
  }),
  'oldest.stock.get': () => ({ path: { sku: 'OWN-SKU' } }),
  'oldest.order.search': () => ({
    body: { ExternalOrderNumber: number },
  }),
  'v2.order.search': () => ({ query: `externalOrderNumber=${number}` }),
  'v2.order.searchByBody': () => ({
    body: { externalOrderNumber: number },
  }),
  'v2.order.release': () => ({
    body: { externalOrderNumber: waitingNumber },
  }),
  'v2.shipment.trackTrace': () => ({}),
  'v2.shipment.list': () => ({}),
  'v2.shipment.listByStatus': () => ({
    path: { status: 'SHIPPED' },
  }),
  'v2.shipment.listByOrderTypes': () => ({
    body: { orderTypes: [31] },
  }),
  'v2.shipment.listByOrderTypesAndStatus': () => ({
    path: { status: 'SHIPPED' },
    body: { orderTypes: [31] },
  }),
  'v2.shipment.search': () => ({ body: { id: owned.shipment } }),
  'v2.rma.add': () => ({
    body: {
      shipmentId: owned.shipment,
      rmaItems: { shipmentItemId: owned.shipmentItem, quantity: 1, returnReasonId: 42 },
    },
  }),
  'v2.returnLabel.get': () => ({ path: { shipmentId: owned.shipment } }),
  'v3.orders.list': () => ({
    query: `filter[externalOrderNumber][in]=${number}`,
  }),
  'v3.orders.get': () => ({ path: { id: owned.order } }),
  'v3.orders.update': () => patch('order', owned.waitingOrder, { reference: 'stolen' }),
  'v3.orderItems.get': () => ({ path: { id: owned.waitingItem } }),
  'v3.orderAttachments.create': () => ({
    body: {
      data: {
        type: 'orderAttachment',
        attributes: { filename: 'a.pdf', externalOrderNumber: waitingNumber, content: pdf },
      },
    },
  }),
  'v3.orderItems.cancel': () => patch('orderItem', owned.waitingItem, { quantity: 0 }),
  'v3.orders.cancel': () => ({ path: { id: owned.waitingOrder } }),
  'v3.shipments.list': () => ({
    query: `filter[orderId]=${owned.order}`,
  }),
  'v3.shipments.get': () => ({ path: { id: owned.shipment } }),
  'v3.returnMerchandiseAuthorizations.create': () => ({
    body: authorization(owned.shipment, owned.shipmentItem),
  }),
  'v3.returnMerchandiseAuthorizations.get': () => ({
    path: { id: owned.authorization },
  }),
  'v3.returnMerchandiseAuthorizations.replace': () => ({
    path: { id: owned.authorization },
    body: authorization(owned.shipment, owned.shipmentItem),
  }),
  'v3.returnMerchandiseAuthorizations.delete': () => ({
    path: { id: owned.authorization },
  }),
  'v3.returnItems.list': () => ({}),
  'v3.inbounds.list': () => ({}),
  'v3.inbounds.get': () => ({ path: { id: owned.inbound } }),
  'v3.inboundItems.get': () => ({ path: { id: owned.inboundItem } }),
  'v3.inboundPackingSlips.list': () => ({}),
  'oldest.shipment.search': () => ({ body: { Id: owned.shipment } }),
  'v2.product.search': () => ({ query: 'sku=OWN-SKU' }),
  'v2.shipment.get': () => ({ query: `id=${owned.shipment}` }),
  'v2.shipment.byOrderType': () => ({ body: { orderTypes: [31] } }),
  'v2.shipment.sync': () => ({ body: { ids: [owned.shipment] } }),
};
/**
 * Lists of articles. Each client has some, so that the stranger's list must lack those of the
 * owner.
 */
const articleLists: Record<string, Request> = {
  'oldest.stock.bulk': () => ({ path: { all: 'true' } }),
  'v3.products.list': () => ({}),
};
/** Requests that create something from their body alone. Both clients may use the same number. */
const creators: Record<string, Request> = {
  'oldest.product.add': () => ({ body: { Sku: 'SAME', Name: 'Same' } }),
  'oldest.order.add': () => ({
    body: {
      ExternalOrderNumber: 'SAME',
      LanguageId: 51,
      OrderTypeId: 31,
      OrderItems: [{ Sku: 'MUG-RED', Quantity: 1 }],
      BillingAddressStreet: 'Keizersgracht 12',
      BillingAddressCountryIso: 'NL',
    },
  }),
  'v2.order.add': () => ({
    body: {
      externalOrderNumber: 'SAME',
      paymentMethodId: 1,
      deliveryAddressLastName: 'de Vries',
      deliveryAddressPostalCode: '1015CJ',
      deliveryAddressStreet: 'Keizersgracht 12',
      deliveryAddressCountryIso: 'NL',
      languageId: 51,
      orderTypeId: 31,
      orderItems: [{ sku: 'MUG-RED', quantity: 1 }],
    },
  }),
  'v3.orders.create': () => ({ body: orderBody('SAME') }),
  'v3.inboundPackingSlips.create': () => ({
    body: slip('MUG-RED'),
  }),
};
const openOperations = ['common.token', 'common.status.get'];
/** Operations that answer all clients in the same way. */
const sharedOperations = ['common.settings.get'];

test('this file covers every operation', () => {
  const tried = [attempts, articleLists, creators].flatMap((group) => Object.keys(group));
  const known = [...tried, ...openOperations, ...sharedOperations];
  expect(known.sort()).toEqual(operations.map(({ name }) => name).sort());
});

/** Returns whether an answer shows nothing: it is not found, refused, NOK or an empty list. */
function showsNothing({ status, body }: Answer): boolean {
  if (status === 404 || status === 422) return true;
  if (body.messageCode === 'NOK') return body.result === null;
  const rows = body.data ?? body.result;
  return Array.isArray(rows) && rows.length === 0;
}

describe('a client never sees the data of another client', () => {
  const readState = () => sandbox.call<{ clients: unknown[] }>('GET', '/_sandbox/state');

  test('neither finds nor changes it, by any operation that its owner finds it with', async () => {
    await makeResources();
    const before = (await readState()).clients;
    for (const [name, make] of Object.entries(attempts))
      expect([name, showsNothing(await stranger.ask(name, make()))]).toEqual([name, true]);
    expect((await readState()).clients).toEqual(before);
    for (const [name, make] of Object.entries(articleLists)) {
      const mine = JSON.stringify((await owner.ask(name, make())).body);
      const theirs = JSON.stringify((await stranger.ask(name, make())).body);
      expect([name, mine, theirs]).toEqual([
        name,
        expect.stringContaining('OWN-SKU'),
        expect.not.stringContaining('OWN-SKU'),
      ]);
      expect(theirs).toContain('MUG-BLUE');
    }
    for (const [name, make] of Object.entries(attempts))
      expect([name, showsNothing(await owner.ask(name, make()))]).toEqual([name, false]);
  });

  test.each(Object.entries(creators))('%s', async (name, make) => {
    const [mine, theirs] = [await owner.ask(name, make()), await stranger.ask(name, make())];
    expect([mine.status, theirs.status], name).toEqual([200, 200]);
    for (const { body } of [mine, theirs]) expect(body.messageCode ?? 'OK').toBe('OK');
    const readId = (answer: Answer) => answer.body.result ?? readOne(answer).id;
    expect(readId(mine)).not.toBe(readId(theirs));
  });
});

describe('a token', () => {
  test('is needed for every operation but those that are open', async () => {
    const asker = new ServiceClient(sandbox, 'default');
    for (const { name, method, path } of operations.filter(
      (one) => !openOperations.includes(one.name),
    ))
      for (const token of ['', 'made-up']) {
        asker.token = token;
        const { status } = await asker.fetch(method, path.replaceAll(/:\w+/g, '1'));
        expect([name, token, status]).toEqual([name, token, 401]);
      }
  });
});
