import { hourMs } from '../../core/time.ts';
import { addStock, soldSkus } from '../rules/products.ts';
import type { Client, Performers, TruckLine } from '../store/client.ts';
import { type Inbound, type Slip, type SlipStatus, slipStatuses } from '../store/model.ts';
import { drawLot } from './shipments.ts';

/** Plans the next truck with goods that nobody announced, two to five days later. */
export function planTruck(client: Client, atMs: number): void {
  const arrivesMs = atMs + client.random.between(2 * 24, 5 * 24) * hourMs;
  client.plan(arrivesMs, { kind: 'truck', slipId: null, isLast: true });
}

export const inboundTasks = {
  /**
   * Creates the inbound of a truck, which brings all, half or too little of a slip's goods, or
   * unannounced goods. Its lines are counted in up to three parts.
   */
  truck: (client, atMs, { slipId, isLast }) => {
    const { random } = client;
    const slip = findSlip(client, slipId);
    const lines = slip === null ? [drawLine(client)] : drawSlipLines(client, slip, isLast);
    const { id: inboundId } = createInbound(client, atMs, slip);
    client.plan(atMs + random.between(1, 4) * hourMs, { kind: 'check-inbound', inboundId });

    const parts = Math.min(lines.length, random.between(1, 3));
    for (let part = 0; part < parts; part++) {
      const counted = lines.filter((_, index) => index % parts === part);
      const countedMs = atMs + (5 + part * 2) * hourMs;
      client.plan(countedMs, { kind: 'count-inbound', inboundId, lines: counted });
    }

    const completedMs = atMs + (12 + random.between(0, 8)) * hourMs;
    client.plan(completedMs, { kind: 'complete-inbound', inboundId, isLast });
    if (slip === null) planTruck(client, atMs);
    else if (!isLast) {
      const nextMs = atMs + random.between(30, 96) * hourMs;
      client.plan(nextMs, { kind: 'truck', slipId: slip.id, isLast: true });
    }
  },

  'check-inbound': (client, atMs, { inboundId }) => {
    const { inbound, slip } = readInbound(client, inboundId);
    inbound.status = 'CHECKING';
    inbound.checkingOnMs = atMs;
    if (slip !== null) advanceSlip(slip, 'CHECKING');
  },

  /** Counts some lines: adds items to the inbound and received quantities to its slip. */
  'count-inbound': (client, atMs, { inboundId, lines }) => {
    const { inbound, slip } = readInbound(client, inboundId);
    const items = lines.map((line) => ({
      ...line,
      id: client.nextId(),
      ...drawLot(client, client.products.get(line.sku), atMs),
    }));
    inbound.items = [...inbound.items, ...items];

    for (const { slipItemId, quantity } of lines) {
      const expected = slip?.items.find(({ id }) => id === slipItemId);
      if (expected !== undefined) expected.received += quantity;
    }
  },

  /**
   * Marks an inbound as checked or, some hours later, as completed. Only then its goods become
   * stock.
   */
  'complete-inbound': (client, atMs, task) => {
    const { inbound, slip } = readInbound(client, task.inboundId);
    if (inbound.status !== 'CHECKED') {
      inbound.status = 'CHECKED';
      client.plan(atMs + client.random.between(1, 6) * hourMs, task);
      return;
    }

    inbound.status = 'COMPLETED';
    inbound.completedOnMs = atMs;
    for (const { sku, quantity } of inbound.items)
      addStock(client, sku, inbound.receivedIn, quantity);
    client.retryWaitingOrders(atMs);

    // A further truck may bring more of the slip.
    if (slip === null || !task.isLast) return;
    advanceSlip(slip, 'COMPLETED');
    slip.completedOnMs = atMs;
  },
} satisfies Partial<Performers>;

const findSlip = ({ slips }: Client, id: number | null): Slip | null =>
  id === null ? null : (slips.get(id) ?? null);

function readInbound(client: Client, id: number) {
  const inbound = client.inbounds.get(id) as Inbound;
  return { inbound, slip: findSlip(client, inbound.slipId) };
}

const drawLine = ({ random }: Client): TruckLine => ({
  sku: random.pick(soldSkus),
  slipItemId: null,
  quantity: random.between(5, 40),
});

function drawSlipLines({ random }: Client, slip: Slip, isLast: boolean): TruckLine[] {
  return slip.items.flatMap(({ id: slipItemId, sku, quantity: expected, received }) => {
    const rest = expected - received;
    const short = random.chance(0.05) ? 1 : 0;
    const quantity = isLast ? rest - short : Math.floor(rest / 2);
    return quantity > 0 ? [{ sku, slipItemId, quantity }] : [];
  });
}

/** Creates an inbound and links it with its slip. Without a slip, it arrives in any warehouse. */
function createInbound(client: Client, atMs: number, slip: Slip | null): Inbound {
  const inbound: Inbound = {
    id: client.nextId(),
    reference: slip?.reference ?? null,
    status: 'PROCESSING',
    receivedIn: slip?.expectedIn ?? client.random.pick(client.lists.warehouseCodes),
    createdOnMs: atMs,
    checkingOnMs: null,
    completedOnMs: null,
    slipId: slip?.id ?? null,
    items: [],
  };
  client.inbounds.add(inbound);
  if (slip === null) return inbound;

  advanceSlip(slip, 'IN_PROGRESS');
  slip.receivedOnMs ??= atMs;
  slip.inboundId = inbound.id;
  return inbound;
}

/**
 * Sets the state of a slip, unless the slip is already further. A second truck does not move it
 * back.
 */
function advanceSlip(slip: Slip, status: SlipStatus): void {
  if (slipStatuses.indexOf(status) > slipStatuses.indexOf(slip.status)) slip.status = status;
}
