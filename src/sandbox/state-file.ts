import { closeSync, createReadStream, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { type Fault, faultSchema } from './faults.ts';
import { type Strictness, switchesSchema, type WorldOptions, worldOptionsSchema } from './options.ts';
import {
  type Authorization,
  emptyList,
  type Inbound,
  type Order,
  type Product,
  type ReturnItem,
  type Shipment,
  type Slip,
} from './store/model.ts';
import type { PlannedTask, SimulationState } from './store/simulation.ts';
import { type SandboxClient, World } from './world.ts';

const format = 'fulfilment-sync sandbox state 1';
const chunkBytes = 1 << 20;

const headerSchema = z.object({
  format: z.literal(format),
  nowMs: z.number(),
  started: worldOptionsSchema,
  options: worldOptionsSchema,
  switches: switchesSchema,
  faults: z.object({
    state: z.number(),
    rules: z.array(z.object({ fault: faultSchema, seen: z.number(), hits: z.number() })),
  }),
});

/** A line of the state file: a row, its kind, and the index of its client. */
type StateLine =
  | { readonly client: number; readonly is: 'simulation'; readonly row: SimulationState }
  | { readonly client: number; readonly is: 'hidden'; readonly row: readonly (readonly [string, number])[] }
  | { readonly client: number; readonly is: 'product'; readonly row: Product }
  | { readonly client: number; readonly is: 'order'; readonly row: Order }
  | { readonly client: number; readonly is: 'shipment'; readonly row: Shipment }
  | { readonly client: number; readonly is: 'authorization'; readonly row: Authorization }
  | { readonly client: number; readonly is: 'returnItem'; readonly row: ReturnItem }
  | { readonly client: number; readonly is: 'inbound'; readonly row: Inbound }
  | { readonly client: number; readonly is: 'slip'; readonly row: Slip }
  | { readonly client: number; readonly is: 'toldStock'; readonly row: readonly (readonly [string, string])[] }
  | { readonly client: number; readonly is: 'step'; readonly row: PlannedTask };

/** Replaces a state file, in one step, by the state of a world. Tokens and logged requests are not saved. */
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
    writeLines(world, descriptor);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function writeLines(world: World, descriptor: number): void {
  let [pending, count] = ['', 0];
  const writeLine = (value: unknown) => {
    // Both characters end a line when the file is read, but JSON.stringify does not escape them.
    const json = JSON.stringify(value);
    pending += `${json.replaceAll(/[\u2028\u2029]/g, (sign) => (sign === '\u2028' ? '\\u2028' : '\\u2029'))}\n`;
    count++;
    if (pending.length < chunkBytes) return;
    writeText(descriptor, pending);
    pending = '';
  };
  for (const name of world.clientNames) world.requireClient(name);
  writeLine(toHeader(world));
  for (const [client, name] of world.clientNames.entries())
    for (const line of toLines(world.getUnadvancedClient(name), client)) writeLine(line);
  writeLine({ end: count });
  writeText(descriptor, pending);
}

/** Loads a saved world, whose time continues. Throws an error that names the file if it is wrong or incomplete. */
export async function loadWorld(file: string, speed?: number, strictness: Strictness = {}): Promise<World> {
  let [world, count, ended]: [World | null, number, boolean] = [null, 0, false];
  const pool = new ValuePool();
  for await (const text of createInterface({ input: createReadStream(file) })) {
    try {
      const line: unknown = JSON.parse(text);
      if (world === null) world = createWorld(line, speed, strictness);
      else if (isEndLine(line, count)) ended = true;
      else storeLine(world, pool.share(line) as StateLine);
    } catch (cause) {
      throw new Error(
        `Line ${count + 1} of ${file} cannot be read: a sandbox did not write it. Remove the file to start over`,
        { cause },
      );
    }
    count++;
  }
  if (world === null || !ended)
    throw new Error(`${file} is incomplete: its last lines are missing. Remove the file to start over`);
  return world;
}

function toHeader({ clock, options, started, switches, faults }: World): z.input<typeof headerSchema> {
  const rules = faults.rules.map(({ fault, seen, hits }) => ({ fault, seen, hits }));
  return {
    format,
    nowMs: clock.nowMs(),
    started,
    options,
    switches,
    faults: { state: faults.random.state, rules },
  };
}

function* toLines({ simulation, visibility }: SandboxClient, client: number): Generator<StateLine> {
  const { store } = simulation;
  for (const row of store.products.values()) yield { client, is: 'product', row };
  for (const row of store.orders) yield { client, is: 'order', row };
  for (const row of store.shipments) yield { client, is: 'shipment', row };
  for (const row of store.authorizations) yield { client, is: 'authorization', row };
  for (const row of store.returnItems) yield { client, is: 'returnItem', row };
  for (const row of store.inbounds) yield { client, is: 'inbound', row };
  for (const row of store.slips) yield { client, is: 'slip', row };
  for (const row of simulation.agenda.entries) yield { client, is: 'step', row };
  yield { client, is: 'hidden', row: visibility.hidden };
  if (store.toldStock.size > 0) yield { client, is: 'toldStock', row: [...store.toldStock] };
  // After the shipments, because it refers to them.
  yield { client, is: 'simulation', row: simulation.state };
}

function createWorld(line: unknown, speed: number | undefined, strictness: Strictness): World {
  const { nowMs, options, switches, faults, started } = headerSchema.parse(line);
  const worldOptions: WorldOptions = { ...options, speed: speed ?? options.speed };
  const world = new World(worldOptions, strictness, { nowMs, switches, started });
  world.faults.random.state = faults.state;
  world.faults.restore(faults.rules as { fault: Fault; seen: number; hits: number }[]);
  return world;
}

function isEndLine(line: unknown, count: number): boolean {
  if (typeof line !== 'object' || line === null || !('end' in line)) return false;
  if (line.end !== count)
    throw new Error(`The file should have ${String(line.end)} lines before its last one, but has ${count}`);
  return true;
}

function storeLine(world: World, line: StateLine): void {
  const { simulation, visibility } = world.getUnadvancedClient(world.clientNames[line.client] ?? '');
  const { store } = simulation;
  const nowMs = world.clock.nowMs();
  switch (line.is) {
    case 'product':
      store.addProduct(line.row);
      break;
    case 'order':
      store.addOrder(line.row);
      break;
    case 'shipment':
      store.shipments.add(line.row);
      if (line.row.visibleFromMs <= nowMs) store.showShipment(line.row, nowMs);
      break;
    case 'authorization':
      store.listedAuthorizations.add(line.row);
      break;
    case 'returnItem':
      store.returnItems.add(line.row);
      if (line.row.processedOn !== null) store.listedReturnItems.add(line.row);
      break;
    case 'inbound':
      store.addInbound(line.row);
      break;
    case 'slip':
      store.addSlip(line.row, nowMs);
      break;
    case 'step':
      simulation.agenda.push(line.row);
      break;
    case 'hidden':
      visibility.restore(line.row);
      break;
    case 'toldStock':
      for (const [sku, told] of line.row) store.toldStock.set(sku, told);
      break;
    case 'simulation':
      simulation.restore(line.row);
      break;
    default:
      throw new Error('The line has an unknown kind');
  }
}

function writeText(descriptor: number, text: string): void {
  const bytes = Buffer.from(text);
  for (let offset = 0; offset < bytes.length; ) offset += writeSync(descriptor, bytes, offset);
}

const maxValues = 50_000;

/** Lets loaded rows share equal texts, addresses and empty lists: a million rows would take far more memory. */
class ValuePool {
  readonly #texts = new Map<string, string>();
  readonly #addresses = new Map<string, object>();

  /** Replaces the parts of a value by equal parts of earlier values. Changes objects and lists in place. */
  share(value: unknown): unknown {
    if (typeof value === 'string') return findOrAdd(this.#texts, value, value);
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) {
      for (const [index, part] of value.entries()) value[index] = this.share(part);
      return value.length === 0 ? emptyList : value;
    }
    const parts = value as Record<string, unknown>;
    for (const [name, part] of Object.entries(parts)) parts[name] = this.share(part);
    return 'street1' in parts ? findOrAdd(this.#addresses, JSON.stringify(parts), parts) : parts;
  }
}

function findOrAdd<T>(known: Map<string, T>, key: string, value: T): T {
  const same = known.get(key);
  if (same !== undefined) return same;
  if (known.size >= maxValues) known.clear();
  known.set(key, value);
  return value;
}
