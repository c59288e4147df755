/**
 * The controls of the sandbox: time, faults, switches and state. They are not part of the service's interface.
 */

import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { faultSchema, matchesOperation } from '../faults.ts';
import { operations } from '../operations/all.ts';
import { badParameter } from '../refusal.ts';
import { readExchange } from '../request-log.ts';
import { seedShipments } from '../robot/shop.ts';
import { shipmentStatuses } from '../store/model.ts';
import type { World } from '../world.ts';
import { addBusinessRoutes } from './business.ts';
import { readControlBody } from './control-body.ts';
import { addEditRoutes } from './edits.ts';
import { dumpClient, stateLists } from './state.ts';

const resetSchema = z.strictObject({
  seed: z.number().int().optional(),
  startMs: z.number().int().optional(),
  speed: z.number().min(0).optional(),
  ordersPerDay: z.number().min(0).max(1_000_000).optional(),
  lateChanges: z.boolean().optional(),
});
const maxAdvanceSeconds = 400 * 86_400;
const advanceSchema = z.strictObject({
  seconds: z.number().positive().max(maxAdvanceSeconds),
  /** How often the span is added. */
  times: z.number().positive().default(1),
});

const removeSchema = z.strictObject({ number: z.number().int() });
const stateQuerySchema = z.strictObject({
  lists: z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(stateLists)))
    .default([...stateLists]),
});
const seedSchema = z.strictObject({
  client: z.string(),
  shipments: z.number().int().min(1).max(1_000_000),
  statuses: z.array(z.enum(shipmentStatuses)).min(1).default(['SHIPPED']),
  spreadDays: z.number().min(0).max(400).default(30),
  items: z.number().int().min(1).max(100).optional(),
});

/** Adds the controls `/_sandbox/*`. They need no token: anybody who can reach the port can use them. */
export function addControlRoutes(app: FastifyInstance, world: World): void {
  const config = { operation: null };

  app.post('/_sandbox/reset', { config }, async (request) => {
    const given = (request.body ?? null) === null ? {} : readControlBody(request, resetSchema);
    world.reset(Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)));
    world.changes++;
    return given;
  });
  app.post('/_sandbox/seed', { config }, async (request) => {
    const { client, ...wanted } = seedSchema.parse(request.body);
    const { simulation } = world.requireClient(client);
    seedShipments(simulation, wanted, world.clock.nowMs());
    world.changes++;
    return { client, shipments: simulation.store.shipments.size, orders: simulation.store.orders.size };
  });
  app.post('/_sandbox/advance', { config }, async (request) => {
    const { seconds, times } = readControlBody(request, advanceSchema);
    if (seconds * times > maxAdvanceSeconds) throw badParameter('times', 'gives a span of more than 400 days');
    world.clock.advance(seconds * times * 1_000);
    for (const name of world.clientNames) world.requireClient(name);
    world.changes++;
    return { now: new Date(world.clock.nowMs()).toISOString() };
  });
  addEditRoutes(app, world);
  addBusinessRoutes(app, world);
  app.get('/_sandbox/switches', { config }, async () => world.switches);
  app.put('/_sandbox/switches', { config }, async (request) => {
    world.setSwitches(request.body);
    world.changes++;
    return world.switches;
  });
  addFaultRoutes(app, world);
  app.get('/_sandbox/requests', { config }, async (request) => {
    const { after } = z.object({ after: z.coerce.number().int().default(0) }).parse(request.query);
    return world.log.since(after);
  });
  app.get('/_sandbox/requests/:place', { config }, async (request) => {
    const { place } = z.object({ place: z.coerce.number().int() }).parse(request.params);
    return readExchange(world.log, place);
  });
  app.get('/_sandbox/findings', { config }, async () => ({
    findings: world.findings.list(),
    beyondLimit: world.findings.beyondLimit,
  }));
  app.get('/_sandbox/state', { config }, async (request) => {
    const { lists } = stateQuerySchema.parse(request.query);
    const clients = world.clientNames.map((name) =>
      dumpClient(world.requireClient(name).simulation.store, world.clock.nowMs(), lists, world.switches.dialect),
    );
    const now = new Date(world.clock.nowMs()).toISOString();
    return { now, clients };
  });
}

function addFaultRoutes(app: FastifyInstance, world: World): void {
  const config = { operation: null };
  app.get('/_sandbox/faults', { config }, async () => world.faults.list());
  app.post('/_sandbox/faults', { config }, async (request) => {
    const faults = Array.isArray(request.body)
      ? z.array(faultSchema).parse(request.body)
      : [readControlBody(request, faultSchema)];
    for (const { operation: pattern } of faults) {
      if (!operations.some(({ name }) => matchesOperation(pattern, name)))
        throw badParameter('operation', `${pattern} is none of ${operations.map(({ name }) => name).join(', ')}`);
    }
    for (const fault of faults) world.faults.add(fault);
    world.changes++;
    return world.faults.list();
  });
  app.post('/_sandbox/faults/remove', { config }, async (request) => {
    const { number } = readControlBody(request, removeSchema);
    if (!world.faults.remove(number)) throw badParameter('number', 'is no active fault');
    world.changes++;
    return world.faults.list();
  });
  app.delete('/_sandbox/faults', { config }, async () => {
    world.faults.clear();
    world.changes++;
    return [];
  });
}
