import { closeSync, createReadStream, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { type Fault, faultSchema } from './faults.ts';
import { type Strictness, switchesSchema, type WorldOptions, worldOptionsSchema } from './options.ts';
import type { ClientStore } from './store/client-store.ts';
import { emptyList } from './store/model.ts';
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
interface StateLine {
  readonly client: number;
  readonly is: string;
  readonly row: unknown;
}

type SavedClient = SandboxClient & { readonly store: ClientStore };

/** How the rows of a kind are listed, and how one is stored again. */
const kind = <Row>(
  list: (client: SavedClient) => Iterable<Row>,
  add: (client: SavedClient, row: Row, nowMs: number) => void,
) => ({ list, add: (client: SavedClient, row: unknown, nowMs: number) => add(client, row as Row, nowMs) });

/** The kinds of rows, in the order in which they are saved. */
const kinds: Readonly<Record<string, ReturnType<typeof kind>>> = {
  product: kind(
    ({ store }) => store.products.values(),
    ({ store }, row) => store.addProduct(row),
  ),
  order: kind(
    ({ store }) => store.orders,
    ({ store }, row) => store.addOrder(row),
  ),
  shipment: kind(
    ({ store }) => store.shipments,
    ({ store }, row, nowMs) => {
      store.shipments.add(row);
      if (row.visibleFromMs <= nowMs) store.showShipment(row, nowMs);
    },
  ),
  authorization: kind(
    ({ store }) => store.authorizations,
    ({ store }, row) => store.listedAuthorizations.add(row),
  ),
  returnItem: kind(
    ({ store }) => store.returnItems,
    ({ store }, row) => {
      store.returnItems.add(row);
      if (row.processedOn !== null) store.listedReturnItems.add(row);
    },
  ),
  inbound: kind(
    ({ store }) => store.inbounds,
    ({ store }, row) => store.addInbound(row),
  ),
  slip: kind(
    ({ store }) => store.slips,
    ({ store }, row, nowMs) => store.addSlip(row, nowMs),
  ),
  step: kind(
    ({ simulation }) => simulation.agenda.entries,
    ({ simulation }, row) => simulation.agenda.push(row),
  ),
  hidden: kind(
    ({ visibility }) => [visibility.hidden],
    ({ visibility }, row) => visibility.restore(row),
  ),
  toldStock: kind(
    ({ store }) => [[...store.toldStock]],
    ({ store }, row) => {
      for (const [sku, told] of row) store.toldStock.set(sku, told);
    },
  ),
  // After the shipments, because it refers to them.
  simulation: kind(
    ({ simulation }) => [simulation.state],
    ({ simulation }, row) => simulation.restore(row),
  ),
};

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
  for (const client of world.clientNames.keys()) for (const line of toLines(world, client)) writeLine(line);
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

function* toLines(world: World, client: number): Generator<StateLine> {
  const saved = openClient(world, client);
  for (const [is, { list }] of Object.entries(kinds)) for (const row of list(saved)) yield { client, is, row };
}

function openClient(world: World, index: number): SavedClient {
  const client = world.getUnadvancedClient(world.clientNames[index] ?? '');
  return { ...client, store: client.simulation.store };
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

function storeLine(world: World, { client, is, row }: StateLine): void {
  const found = Object.hasOwn(kinds, is) ? kinds[is] : undefined;
  if (found === undefined) throw new Error('The line has an unknown kind');
  found.add(openClient(world, client), row, world.clock.nowMs());
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
