import type { FastifyInstance } from 'fastify';
import type { ClientStore } from '../store/client-store.ts';
import { fractionsOf } from '../store/client-store.ts';
import type { World } from '../world.ts';

const rowsShown = 25;

/** `/`: what one client has, newest first, and what was asked lately. Shows, and changes nothing. */
export function pageRoute(app: FastifyInstance, world: World): void {
  app.get('/', { config: { operation: null } }, async (request, reply) => {
    const [first = ''] = world.clientNames;
    const wanted = new URLSearchParams(request.url.split('?', 2)[1]).get('client') ?? first;
    const inhabitant = world.client(wanted) ?? world.client(first);
    reply.type('text/html; charset=utf-8');
    reply.header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'");
    return inhabitant === undefined ? '' : document(world, inhabitant.life.store);
  });
}

function document(world: World, store: ClientStore): string {
  const links = world.clientNames.map((name) =>
    name === store.name ? `<b>${asText(name)}</b>` : `<a href="/?client=${asText(name)}">${asText(name)}</a>`,
  );
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"><title>Sandbox: ${asText(store.name)}</title><style>
:root { color-scheme: light dark }
body { font: 14px/1.4 system-ui, sans-serif; margin: 1rem auto; max-width: 80rem; padding: 0 1rem }
section { overflow-x: auto } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; white-space: nowrap; border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent) }
</style></head><body>
<h1>Sandbox of the warehouse fulfilment service</h1>
<p>Virtual time ${new Date(world.clock.nowMs()).toISOString()}, ${paceOf(world)}. Clients: ${links.join(', ')}.
<a href="/openapi.json">OpenAPI document</a></p>
${tables(world, store).map(section).join('\n')}
</body></html>`;
}

function paceOf({ options: { speed } }: World): string {
  return speed === 0 ? 'standing still' : `${speed} seconds a second`;
}

interface Table {
  readonly title: string;
  readonly total: number;
  readonly head: readonly string[];
  readonly rows: readonly (readonly unknown[])[];
}

function tables(world: World, store: ClientStore): Table[] {
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
        const { readyToPickOn, later } = fractionsOf(row);
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
    requestTable(world),
  ];
}

function requestTable(world: World): Table {
  const requests = world.log.latest(2 * rowsShown);
  return {
    title: 'Requests',
    total: requests[0]?.place ?? 0,
    head: ['at', 'client', 'request', 'operation', 'status', 'ms', ''],
    rows: requests.map((row) => {
      const asked = `${row.method} ${row.path}${row.query === '' ? '' : `?${row.query}`}`;
      const what = row.operation ?? 'unexpected';
      const at = new Date(row.atMs).toISOString();
      return [at, row.client, asked, what, row.status, row.durationMs, row.faulty ? 'fault' : ''];
    }),
  };
}

function section({ title, total, head, rows }: Table): string {
  const cells = (tag: string, row: readonly unknown[]) =>
    `<tr>${row.map((cell) => `<${tag}>${asText(String(cell ?? ''))}</${tag}>`).join('')}</tr>`;
  return `<section><h2>${asText(title)} (${total})</h2><table>${cells('th', head)}${rows.map((row) => cells('td', row)).join('')}</table></section>`;
}

function asText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
