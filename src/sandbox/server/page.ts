import type { FastifyInstance } from 'fastify';
import type { ClientStore } from '../store/client-store.ts';
import { toFractions } from '../store/client-store.ts';
import type { World } from '../world.ts';

const rowsShown = 25;

/** Adds the page `/`. It shows the newest rows of a client, the findings and the latest requests, and changes nothing. */
export function addPageRoute(app: FastifyInstance, world: World): void {
  app.get('/', { config: { operation: null } }, async (request, reply) => {
    const [first = ''] = world.clientNames;
    const wanted = new URLSearchParams(request.url.split('?', 2)[1]).get('client') ?? first;
    const client = world.findClient(wanted) ?? world.findClient(first);
    reply.type('text/html; charset=utf-8');
    reply.header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'");
    return client === undefined ? '' : renderHtml(world, client.simulation.store);
  });
}

function renderHtml(world: World, store: ClientStore): string {
  const links = world.clientNames.map((name) =>
    name === store.name
      ? `<b>${escapeHtml(name)}</b>`
      : `<a href="/?client=${escapeHtml(name)}">${escapeHtml(name)}</a>`,
  );
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"><title>Sandbox: ${escapeHtml(store.name)}</title><style>
:root { color-scheme: light dark }
body { font: 14px/1.4 system-ui, sans-serif; margin: 1rem auto; max-width: 80rem; padding: 0 1rem }
section { overflow-x: auto } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; white-space: nowrap; border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent) }
</style></head><body>
<h1>Sandbox of the warehouse fulfilment service</h1>
<p>Virtual time ${new Date(world.clock.nowMs()).toISOString()}, ${describeSpeed(world)}. Clients: ${links.join(', ')}.
<a href="/openapi.json">OpenAPI document</a></p>
${createTables(world, store).map(renderSection).join('\n')}
</body></html>`;
}

function describeSpeed({ options: { speed } }: World): string {
  return speed === 0 ? 'stopped' : `${speed} virtual seconds per second`;
}

interface Table {
  readonly title: string;
  readonly total: number;
  readonly head: readonly string[];
  readonly rows: readonly (readonly unknown[])[];
}

function createTables(world: World, store: ClientStore): Table[] {
  const { zone } = store;
  return [
    {
      title: 'Orders',
      total: store.orders.size,
      head: ['id', 'externalOrderNumber', 'orderedOn', 'items', 'fulfilled', ''],
      rows: store.orders.latest(rowsShown).map((order) => {
        const sum = (key: 'quantity' | 'fulfilled') => order.items.reduce((total, item) => total + item[key], 0);
        const note = order.notValid ? 'Not Valid: no house number' : order.onHold ? 'on hold' : '';
        return [order.id, order.externalOrderNumber, order.orderedOn, sum('quantity'), sum('fulfilled'), note];
      }),
    },
    {
      title: 'Shipments',
      total: store.shipments.size,
      head: ['id', 'order', 'status', 'warehouse', 'readyToPickOn', 'shippedOn'],
      rows: store.shipments.latest(rowsShown).map((row) => {
        const { readyToPickOn, later } = toFractions(row);
        const times = [zone.writeLocal(row.readyToPickOnMs, readyToPickOn), zone.writeLocal(row.shippedOnMs, later)];
        return [row.id, row.orderId, row.status, row.warehouseCode, ...times];
      }),
    },
    {
      title: 'Returns',
      total: store.returnItems.size,
      head: ['id', 'sku', 'quantity', 'processedOn', 'restockIn'],
      rows: store.returnItems
        .latest(rowsShown)
        .map((row) => [row.id, row.sku, row.quantity, row.processedOn ?? 'not yet', row.restockIn]),
    },
    {
      title: 'Inbound packing slips',
      total: store.slips.size,
      head: ['id', 'reference', 'expectedIn', 'expectedOn', 'status', 'inbound'],
      rows: store.slips
        .latest(rowsShown)
        .map((row) => [row.id, row.reference, row.expectedIn, row.expectedOn, row.status, row.inboundId]),
    },
    createFindingTable(world),
    createRequestTable(world),
  ];
}

function createFindingTable({ findings, strict }: World): Table {
  const all = findings.list();
  const more = findings.beyondLimit === 0 ? '' : `; ${findings.beyondLimit} more oddities are not listed`;
  return {
    title: `Findings: what clients send beyond the interface, ${strict ? 'refused' : 'accepted if possible'}${more}`,
    total: all.length,
    head: ['client', 'operation', 'code', 'member', 'shape', 'count', 'last', 'advice'],
    rows: all
      .slice(0, 2 * rowsShown)
      .map((row) => [row.client, row.operation, row.code, row.member, row.shape, row.count, row.lastAt, row.advice]),
  };
}

function createRequestTable(world: World): Table {
  const requests = world.log.latest(2 * rowsShown);
  return {
    title: 'Requests',
    total: requests[0]?.place ?? 0,
    head: ['at', 'client', 'request', 'operation', 'status', 'ms', ''],
    rows: requests.map((row) => {
      const requested = `${row.method} ${row.path}${row.query === '' ? '' : `?${row.query}`}`;
      const what = row.operation ?? 'unknown route';
      const at = new Date(row.atMs).toISOString();
      return [at, row.client, requested, what, row.status, row.durationMs, row.faulty ? 'fault' : ''];
    }),
  };
}

function renderSection({ title, total, head, rows }: Table): string {
  const cells = (tag: string, row: readonly unknown[]) =>
    `<tr>${row.map((cell) => `<${tag}>${escapeHtml(String(cell ?? ''))}</${tag}>`).join('')}</tr>`;
  return `<section><h2>${escapeHtml(title)} (${total})</h2><table>${cells('th', head)}${rows.map((row) => cells('td', row)).join('')}</table></section>`;
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
