import {
  closeSync,
  createReadStream,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { faultSchema } from './faults.ts';
import {
  type Strictness,
  switchesSchema,
  type WorldOptions,
  worldOptionsSchema,
} from './options.ts';
import type {
  Authorization,
  Inbound,
  Order,
  Product,
  ReturnItem,
  Shipment,
  Slip,
} from './store/model.ts';
import type { PlannedTask, SimulationState } from './store/simulation.ts';
import { type SandboxClient, World } from './world.ts';

const format = 'fulfilment-sync sandbox state 2';
const chunkLength = 1 << 20;

const headerSchema = z.object({
  format: z.literal(format),
  nowMs: z.number(),
  started: worldOptionsSchema,
  options: worldOptionsSchema,
  switches: switchesSchema,
  faults: z.object({
    state: z.number(),
    rules: z.array(
      z.object({ number: z.number(), fault: faultSchema, seen: z.number(), hits: z.number() }),
    ),
  }),
});

/**
 * A line of the state file but its first and its last: a row, its kind, and the name of its client.
 */
const rowSchema = z.object({ client: z.string(), is: z.string(), row: z.unknown() });
const endSchema = z.strictObject({ end: z.number() });

/** Returns the rows of a client, by their kind, in the order in which they are saved. */
const listRows = ({
  simulation,
  visibility,
}: SandboxClient): Readonly<Record<string, Iterable<unknown>>> => ({
  product: simulation.store.products.values(),
  order: simulation.store.orders,
  shipment: simulation.store.shipments,
  authorization: simulation.store.authorizations,
  returnItem: simulation.store.returnItems,
  inbound: simulation.store.inbounds,
  slip: simulation.store.slips,
  step: simulation.agenda.tasks,
  hidden: [visibility.hidden],
  toldStock: simulation.store.toldStock,
  // After the shipments, because it refers to them.
  simulation: [simulation.state],
});

type AddRow = (client: SandboxClient, row: never, nowMs: number) => void;

/** How a row of each kind is stored again. */
const addByKind: Readonly<Record<string, AddRow>> = {
  product: ({ simulation: { store } }, row: Product) => store.addProduct(row),
  order: ({ simulation: { store } }, row: Order) => store.addOrder(row),
  shipment: ({ simulation: { store } }, row: Shipment, nowMs) => {
    store.shipments.add(row);
    if (row.visibleFromMs <= nowMs) store.showShipment(row, nowMs);
  },
  authorization: ({ simulation: { store } }, row: Authorization) =>
    store.listedAuthorizations.add(row),
  returnItem: ({ simulation: { store } }, row: ReturnItem) => {
    store.returnItems.add(row);
    if (row.processedOn !== null) store.listedReturnItems.add(row);
  },
  inbound: ({ simulation: { store } }, row: Inbound) => store.addInbound(row),
  slip: ({ simulation: { store } }, row: Slip, nowMs) => store.addSlip(row, nowMs),
  step: ({ simulation }, row: PlannedTask) => simulation.agenda.push(row),
  hidden: ({ visibility }, row: SandboxClient['visibility']['hidden']) => visibility.restore(row),
  toldStock: ({ simulation: { store } }, [sku, told]: [string, string]) =>
    store.toldStock.set(sku, told),
  simulation: ({ simulation }, row: SimulationState) => simulation.restore(row),
};

/**
 * Replaces a state file, in one step, by the state of a world. Tokens and logged requests are not
 * saved.
 */
export function saveWorld(world: World, file: string): void {
  const temporaryFile = `${file}.${process.pid}.tmp`;
  try {
    writeWorld(world, temporaryFile);
    renameSync(temporaryFile, file);
  } catch (error) {
    rmSync(temporaryFile, { force: true });
    throw error;
  }
}

function writeWorld(world: World, file: string): void {
  const descriptor = openSync(file, 'w', 0o600);
  try {
    let pending = '';
    for (const line of toLines(world)) {
      // Both characters end a line when the file is read, but JSON.stringify does not escape them.
      const json = JSON.stringify(line)
        .replaceAll('\u2028', '\\u2028')
        .replaceAll('\u2029', '\\u2029');
      pending += `${json}\n`;
      if (pending.length < chunkLength) continue;
      writeFileSync(descriptor, pending);
      pending = '';
    }
    writeFileSync(descriptor, pending);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Yields the lines of the file: what belongs to no client, the rows of the clients, and the number
 * of these lines.
 */
function* toLines(world: World): Generator<unknown> {
  const clients = world.clientNames.map((client) => ({
    client,
    rows: listRows(world.requireClient(client)),
  }));
  const { clock, options, started, switches, faults } = world;
  const savedFaults = { state: faults.random.state, rules: faults.rules };
  yield { format, nowMs: clock.nowMs(), started, options, switches, faults: savedFaults };
  let count = 1;
  for (const { client, rows } of clients)
    for (const [is, ofKind] of Object.entries(rows))
      for (const row of ofKind) {
        yield { client, is, row };
        count++;
      }
  yield { end: count };
}

/**
 * Loads a saved world, whose time continues. Throws an error that names the file if it is wrong or
 * incomplete.
 */
export async function loadWorld(
  file: string,
  speed?: number,
  strictness: Strictness = {},
): Promise<World> {
  let [world, count, ended]: [World | null, number, boolean] = [null, 0, false];
  for await (const text of createInterface({ input: createReadStream(file) })) {
    try {
      const line: unknown = JSON.parse(text);
      const end = endSchema.safeParse(line);
      if (world === null) world = createWorld(line, speed, strictness);
      else if (end.success) ended = end.data.end === count;
      else addRow(world, line);
    } catch (cause) {
      throw new Error(
        `Line ${count + 1} of ${file} cannot be read: a sandbox did not write it. ` +
          'Remove the file to start over',
        { cause },
      );
    }
    count++;
  }
  if (world === null || !ended)
    throw new Error(`${file} is incomplete: lines are missing. Remove the file to start over`);
  return world;
}

function createWorld(line: unknown, speed: number | undefined, strictness: Strictness): World {
  const { nowMs, options, switches, faults, started } = headerSchema.parse(line);
  const worldOptions: WorldOptions = { ...options, speed: speed ?? options.speed };
  const world = new World(worldOptions, strictness, { nowMs, switches, started });
  world.faults.random.state = faults.state;
  world.faults.restore(faults.rules);
  return world;
}

function addRow(world: World, line: unknown): void {
  const { client, is, row } = rowSchema.parse(line);
  const add = Object.hasOwn(addByKind, is) ? addByKind[is] : undefined;
  if (add === undefined) throw new Error('The line has an unknown kind');
  add(world.getUnadvancedClient(client), row as never, world.clock.nowMs());
}
