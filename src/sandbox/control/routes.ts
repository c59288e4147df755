/**
 * Controls of the sandbox: time, faults, switches and its state. Clients of the service never see them.
 */

import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { covers, faultSchema } from '../faults.ts';
import { operations } from '../operations/all.ts';
import { switchesSchema } from '../paging.ts';
import { badParameter } from '../refusal.ts';
import { bulk } from '../robot/shop.ts';
import { shipmentStatuses } from '../store/model.ts';
import type { World } from '../world.ts';
import { editRoutes } from './edits.ts';
import { dump, stateLists } from './state.ts';

const resetSchema = z.strictObject({
  seed: z.number().int().optional(),
  startMs: z.number().int().optional(),
  speed: z.number().min(0).optional(),
  ordersPerDay: z.number().min(0).max(1_000_000).optional(),
  lateChanges: z.boolean().optional(),
});
const advanceSchema = z.strictObject({
  seconds: z
    .number()
    .positive()
    .max(400 * 86_400),
});
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

/** `/_sandbox/*`: what makes the sandbox a tool. No part of the interface, and open to whoever can reach the port. */
export function controlRoutes(app: FastifyInstance, world: World): void {
  const config = { operation: null };

  app.post('/_sandbox/reset', { config }, async (request) => {
    const given = resetSchema.parse(request.body ?? {});
    world.reset(Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)));
    world.changes++;
    return given;
  });
  app.post('/_sandbox/seed', { config }, async (request) => {
    const { client, ...wanted } = seedSchema.parse(request.body);
    const { life } = world.resident(client);
    bulk(life, wanted, world.clock.nowMs());
    world.changes++;
    return { client, shipments: life.store.shipments.size, orders: life.store.orders.size };
  });
  app.post('/_sandbox/advance', { config }, async (request) => {
    world.clock.advance(advanceSchema.parse(request.body).seconds * 1_000);
    for (const name of world.clientNames) world.resident(name);
    world.changes++;
    return { now: new Date(world.clock.nowMs()).toISOString() };
  });
  editRoutes(app, world);
  app.get('/_sandbox/switches', { config }, async () => world.switches);
  app.put('/_sandbox/switches', { config }, async (request) => {
    world.switches = switchesSchema.parse(request.body);
    world.changes++;
    return world.switches;
  });
  faultRoutes(app, world);
  app.get('/_sandbox/requests', { config }, async (request) => {
    const { after } = z.object({ after: z.coerce.number().int().default(0) }).parse(request.query);
    return world.log.since(after);
  });
  app.get('/_sandbox/state', { config }, async (request) => {
    const { lists } = stateQuerySchema.parse(request.query);
    return {
      now: new Date(world.clock.nowMs()).toISOString(),
      clients: world.clientNames.map((name) => dump(world.resident(name).life.store, world.clock.nowMs(), lists)),
    };
  });
}

function faultRoutes(app: FastifyInstance, world: World): void {
  const config = { operation: null };
  app.get('/_sandbox/faults', { config }, async () => world.faults.list());
  app.post('/_sandbox/faults', { config }, async (request) => {
    const faults = z.array(faultSchema).parse(Array.isArray(request.body) ? request.body : [request.body]);
    for (const { operation: pattern } of faults) {
      if (!operations.some(({ name }) => covers(pattern, name)))
        throw badParameter('operation', `${pattern} is none of ${operations.map(({ name }) => name).join(', ')}`);
    }
    for (const fault of faults) world.faults.add(fault);
    world.changes++;
    return world.faults.list();
  });
  app.delete('/_sandbox/faults', { config }, async () => {
    world.faults.clear();
    world.changes++;
    return [];
  });
}
