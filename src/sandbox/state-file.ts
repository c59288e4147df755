import { closeSync, createReadStream, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { type Fault, faultSchema } from './faults.ts';
import { switchesSchema } from './paging.ts';
import type { LifeState, Step } from './store/life.ts';
import type { Authorization, Inbound, Order, Product, ReturnItem, Shipment, Slip } from './store/model.ts';
import { Sharing } from './store/sharing.ts';
import { type Inhabitant, World, type WorldOptions } from './world.ts';

const format = 'fulfilment-sync sandbox state 1';
const chunkBytes = 1 << 20;

const optionsSchema = z.object({
  clients: z.array(z.string()).min(1),
  seed: z.number(),
  speed: z.number(),
  startMs: z.number(),
  zone: z.string(),
  ordersPerDay: z.number(),
  lateChanges: z.boolean().optional(),
});
const headerSchema = z.object({
  format: z.literal(format),
  nowMs: z.number(),
  started: optionsSchema,
  options: optionsSchema,
  switches: switchesSchema,
  faults: z.object({
    state: z.number(),
    rules: z.array(z.object({ fault: faultSchema, seen: z.number(), hits: z.number() })),
  }),
});

/** A row with the place of its client, and what it is. */
type Line =
  | { readonly client: number; readonly is: 'life'; readonly row: LifeState }
  | { readonly client: number; readonly is: 'hidden'; readonly row: readonly (readonly [string, number])[] }
  | { readonly client: number; readonly is: 'product'; readonly row: Product }
  | { readonly client: number; readonly is: 'order'; readonly row: Order }
  | { readonly client: number; readonly is: 'shipment'; readonly row: Shipment }
  | { readonly client: number; readonly is: 'authorization'; readonly row: Authorization }
  | { readonly client: number; readonly is: 'returnItem'; readonly row: ReturnItem }
  | { readonly client: number; readonly is: 'inbound'; readonly row: Inbound }
  | { readonly client: number; readonly is: 'slip'; readonly row: Slip }
  | { readonly client: number; readonly is: 'step'; readonly row: Step };

/** Writes everything a world holds, but tokens and requests, into a file that only its owner can read. */
export function saveWorld(world: World, file: string): void {
  const temporary = `${file}.${process.pid}.tmp`;
  try {
    writeWorld(world, temporary);
    renameSync(temporary, file);
  } catch (error) {
    rmSync(temporary, { force: true });
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
  const put = (value: unknown) => {
    // Both signs end a line for the reader, and stand unescaped in JSON.
    pending += `${JSON.stringify(value).replaceAll(/[\u2028\u2029]/g, (sign) => (sign === '\u2028' ? '\\u2028' : '\\u2029'))}\n`;
    count++;
    if (pending.length < chunkBytes) return;
    writeAll(descriptor, pending);
    pending = '';
  };
  for (const name of world.clientNames) world.resident(name);
  put(headerOf(world));
  for (const [client, name] of world.clientNames.entries())
    for (const line of linesOf(world.asLeft(name), client)) put(line);
  put({ end: count });
  writeAll(descriptor, pending);
}

/**
 * Puts back a world that was saved. Virtual time goes on where it stood.
 * @param speed takes the place of the one that was saved
 * @throws Error that names file and line where the file is no such state, or not all of one
 */
export async function loadWorld(file: string, speed: number | undefined): Promise<World> {
  let [world, count, ended]: [World | null, number, boolean] = [null, 0, false];
  const sharing = new Sharing();
  for await (const text of createInterface({ input: createReadStream(file) })) {
    try {
      const line: unknown = JSON.parse(text);
      if (world === null) world = worldOf(line, speed);
      else if (isEnd(line, count)) ended = true;
      else put(world, sharing.shared(line) as Line);
    } catch (cause) {
      throw new Error(`Line ${count + 1} of ${file} is not what a sandbox has saved; remove the file to start over`, {
        cause,
      });
    }
    count++;
  }
  if (world === null || !ended) throw new Error(`${file} ends before the state does; remove the file to start over`);
  return world;
}

function headerOf({ clock, options, started, switches, faults }: World): z.input<typeof headerSchema> {
  const rules = faults.rules.map(({ fault, seen, hits }) => ({ fault, seen, hits }));
  const plain = (own: WorldOptions) => ({ ...own, clients: [...own.clients] });
  return {
    format,
    nowMs: clock.nowMs(),
    started: plain(started),
    options: plain(options),
    switches,
    faults: { state: faults.random.state, rules },
  };
}

function* linesOf({ life, sight }: Inhabitant, client: number): Generator<Line> {
  const { store } = life;
  for (const row of store.products.values()) yield { client, is: 'product', row };
  for (const row of store.orders) yield { client, is: 'order', row };
  for (const row of store.shipments) yield { client, is: 'shipment', row };
  for (const row of store.authorizations) yield { client, is: 'authorization', row };
  for (const row of store.returnItems) yield { client, is: 'returnItem', row };
  for (const row of store.inbounds) yield { client, is: 'inbound', row };
  for (const row of store.slips) yield { client, is: 'slip', row };
  for (const row of life.agenda.entries) yield { client, is: 'step', row };
  yield { client, is: 'hidden', row: sight.hidden };
  // After the shipments it speaks of.
  yield { client, is: 'life', row: life.state };
}

function worldOf(line: unknown, speed: number | undefined): World {
  const { nowMs, options, switches, faults, started } = headerSchema.parse(line);
  const own: WorldOptions = { ...options, speed: speed ?? options.speed };
  const world = new World(own, { nowMs, switches, started });
  world.faults.random.state = faults.state;
  world.faults.restore(faults.rules as { fault: Fault; seen: number; hits: number }[]);
  return world;
}

function isEnd(line: unknown, count: number): boolean {
  if (typeof line !== 'object' || line === null || !('end' in line)) return false;
  if (line.end !== count) throw new Error(`${String(line.end)} lines were saved, ${count} are there`);
  return true;
}

function put(world: World, line: Line): void {
  const { life, sight } = world.asLeft(world.clientNames[line.client] ?? '');
  const { store } = life;
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
      life.agenda.push(line.row);
      break;
    case 'hidden':
      sight.restore(line.row);
      break;
    case 'life':
      life.resume(line.row);
      break;
    default:
      throw new Error('no row of a kind that is known');
  }
}

function writeAll(descriptor: number, text: string): void {
  const bytes = Buffer.from(text);
  for (let offset = 0; offset < bytes.length; ) offset += writeSync(descriptor, bytes, offset);
}
