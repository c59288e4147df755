import { z } from 'zod';

const linkage = z.looseObject({ id: z.number() });
/** A resource of the sandbox as it would answer it. */
const resourceSchema = z.looseObject({
  id: z.number(),
  type: z.string(),
  attributes: z.record(z.string(), z.unknown()),
  relationships: z.record(z.string(), z.object({ data: z.union([linkage, z.array(linkage), z.null()]) })).optional(),
});
export type StateResource = z.infer<typeof resourceSchema>;

/** Times without a zone, as the instants they stand for. */
const instants = z.record(z.string(), z.string().nullable());

/** What `/_sandbox/state` answers for the lists that were asked for, as far as tables are compared with it (docs/sandbox.md, Controls). */
export const stateSchema = z.object({
  clients: z.array(
    z.object({
      client: z.string(),
      orders: z.array(z.object({ resource: resourceSchema, included: z.array(resourceSchema) })).default([]),
      inbounds: z.array(z.object({ resource: resourceSchema, items: z.array(resourceSchema) })).default([]),
      inboundPackingSlips: z.array(z.object({ resource: resourceSchema, items: z.array(resourceSchema) })).default([]),
      returnItems: z.array(z.object({ visible: z.boolean(), resource: resourceSchema, instants })).default([]),
      shipments: z
        .array(z.object({ visible: z.boolean(), resource: resourceSchema, items: z.array(resourceSchema), instants }))
        .default([]),
    }),
  ),
});
/** One client's part. */
export type ClientState = z.infer<typeof stateSchema>['clients'][number];
