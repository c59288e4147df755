/**
 * Scenarios: a day in the life of the warehouse as a script, which is played in virtual time.
 * describes the verbs.
 */

import { z } from 'zod';
import { dayMs, hourMs, minuteMs } from '../../core/time.ts';
import { faultSchema } from '../faults.ts';
import { switchesSchema } from '../paging.ts';
import { shipmentStatuses } from '../store/model.ts';

const maxSteps = 500;
const maxChecks = 100;
const maxOrders = 1_000;
const maxDays = 400;

/** A span such as `90s`, `30m`, `2h` or `1d12h`, in milliseconds. */
const span = z
  .string()
  .regex(/^(?:\d{1,6}(?:d|h|m|s)){1,4}$/, 'must be a span such as 90s, 30m, 2h or 1d12h')
  .transform((text) => {
    const unitMs: Readonly<Record<string, number>> = { d: dayMs, h: hourMs, m: minuteMs, s: 1_000 };
    return [...text.matchAll(/(\d{1,6})([a-z])/g)].reduce(
      (sum, [, n, unit = '']) => sum + Number(n) * (unitMs[unit] ?? 0),
      0,
    );
  })
  .refine((ms) => ms <= maxDays * dayMs, `must be at most ${maxDays} days`);
const clockTime = /^(?:day (\d{1,3}) )?([01]\d|2[0-3]):([0-5]\d)$/;
/** A local time such as `09:30`, or `day 2 09:30`; the first day is day 1. */
const at = z
  .string()
  .regex(clockTime, 'must be a time such as 09:30 or day 2 09:30')
  .transform((text) => {
    const [, day = '1', hour = '', minute = ''] = clockTime.exec(text) ?? [];
    return { day: Number(day), time: `${hour}:${minute}` };
  })
  .refine(({ day }) => day >= 1 && day <= maxDays, `must be on day 1 to ${maxDays}`);

const text = z.string().min(1).max(200);
const orderNumber = z.string().min(1).max(50);
const quantity = z.int().min(1).max(1_000_000);
const withEntries = <T extends z.ZodRecord>(record: T, most: number) =>
  record
    .refine((entries) => Object.keys(entries as object).length > 0, 'must not be empty')
    .refine((entries) => Object.keys(entries as object).length <= most, `must have at most ${most} entries`);
/** Quantities by sku. */
const lines = withEntries(z.record(text, quantity), 100);
/** Lines by order number. */
const orders = withEntries(z.record(orderNumber, lines), maxOrders);
/** Pieces by warehouse, by sku. */
const stock = withEntries(z.record(text, withEntries(z.record(text, z.int().min(0).max(1_000_000)), 100)), maxOrders);
/** A number, or a range of which both ends are allowed. */
const count = z.union(
  [
    z.int().min(0),
    z
      .strictObject({ min: z.int().min(0).optional(), max: z.int().min(0).optional() })
      .refine(({ min, max }) => min !== undefined || max !== undefined),
  ],
  'must be a number or {min, max}',
);
export type Count = z.infer<typeof count>;

/** Refuses an object that does not have exactly one of these members. */
const exactlyOne =
  <T extends object>(names: readonly string[], what: string) =>
  (value: T, context: z.RefinementCtx) => {
    const given = names.filter((name) => (value as Readonly<Record<string, unknown>>)[name] !== undefined);
    if (given.length === 1) return;
    const found = given.length === 0 ? 'none' : given.join(' and ');
    context.addIssue({ code: 'custom', message: `needs exactly one ${what} of ${names.join(', ')}; it has ${found}` });
  };

const checkMembers = {
  /** One order: how often it was received, its lines, what was shipped, and its shipments. */
  order: z
    .strictObject({
      number: orderNumber,
      received: count.default(1),
      lines: lines.optional(),
      shipped: lines.optional(),
      shipments: count.optional(),
    })
    .optional(),
  orders: count.optional(),
  /** Order numbers that several orders have. */
  duplicates: count.optional(),
  shipments: count.optional(),
  shipped: count.optional(),
  authorizations: count.optional(),
  returns: count.optional(),
  restocked: count.optional(),
  inbounds: count.optional(),
  slips: count.optional(),
  stock: stock.optional(),
  /** Requests of an operation: all, or with `per` the most in any such span of virtual time. */
  requests: z
    .strictObject({
      operation: text,
      status: z.int().min(200).max(599).optional(),
      per: span.optional(),
      count,
    })
    .optional(),
  /** Requests that a fault affected. */
  disturbed: count.optional(),
};
export const checkNames = Object.keys(checkMembers);
const check = z.strictObject(checkMembers).superRefine(exactlyOne(checkNames, 'check'));
export type Check = z.infer<typeof check>;

const verbs = {
  place: z
    .strictObject({
      orders,
      type: text.optional(),
      partial: z.boolean().optional(),
      onHold: z.boolean().default(false),
    })
    .optional(),
  expect: z.strictObject({ orders, within: span.default(dayMs) }).optional(),
  stock: stock.optional(),
  ship: z
    .strictObject({
      order: orderNumber,
      lines: lines.optional(),
      from: text.optional(),
      status: z.enum(shipmentStatuses).default('SHIPPED'),
    })
    .optional(),
  move: z.strictObject({ order: orderNumber, status: z.enum(shipmentStatuses) }).optional(),
  return: z
    .strictObject({ order: orderNumber, lines, reason: text.optional(), restock: z.boolean().default(true) })
    .optional(),
  inbound: z.strictObject({ into: text, lines, reference: text.optional() }).optional(),
  seed: z
    .strictObject({
      shipments: z.int().min(1).max(100_000),
      statuses: z.array(z.enum(shipmentStatuses)).min(1).max(100).default(['SHIPPED']),
      spreadDays: z.number().min(0).max(maxDays).default(30),
      items: z.int().min(1).max(100).optional(),
    })
    .optional(),
  fault: faultSchema.extend({ for: span.optional() }).optional(),
  schema: z
    .strictObject({
      type: text,
      /** Attributes that every resource of the type gets. */
      add: z.record(text, z.json()).default({}),
      /** New values by attribute and old value. */
      values: z.record(text, z.record(text, text)).default({}),
    })
    .optional(),
  jump: span.optional(),
  check: z.array(check).min(1).max(maxChecks).optional(),
};
export const verbNames = Object.keys(verbs) as (keyof typeof verbs)[];

const step = z
  .strictObject({ at: at.optional(), after: span.optional(), note: text.optional(), ...verbs })
  .refine((given) => given.at === undefined || given.after === undefined, 'has at and after; give one of them')
  .superRefine(exactlyOne(verbNames, 'verb'));
export type Step = z.infer<typeof step>;
export type Verb = (typeof verbNames)[number];
/** What a step asks for. */
export type Arguments<V extends Verb> = NonNullable<Step[V]>;

function checkSwitches(given: Readonly<Record<string, unknown>>, context: z.RefinementCtx): void {
  for (const { path, message } of switchesSchema.partial().safeParse(given).error?.issues ?? [])
    context.addIssue({ code: 'custom', path: [...path], message });
}

export const scenarioSchema = z.strictObject({
  about: text,
  /** Local time at the warehouses. */
  start: z.string().regex(/^\d{4}-\d{2}-\d{2} ([01]\d|2[0-3]):[0-5]\d$/, 'must be such as 2026-05-04 08:00'),
  /** Virtual seconds per second, unless `--speed` says otherwise. */
  speed: z.number().min(0).max(100_000).default(60),
  seed: z.int().min(0).default(1),
  ordersPerDay: z.int().min(0).max(1_000_000).default(0),
  /** Who works in the warehouses: the robot too, or only the steps. */
  warehouse: z.enum(['robot', 'steps']).default('steps'),
  /** The switches that differ from their defaults. */
  switches: z.record(z.string(), z.json()).default({}).superRefine(checkSwitches),
  steps: z
    .array(step)
    .min(1)
    .max(maxSteps)
    .refine((steps) => steps.at(-1)?.check !== undefined, 'the last step must be a check'),
});
export type Scenario = z.infer<typeof scenarioSchema> & { readonly name: string };
