import { z } from 'zod';

const linkage = z.looseObject({ id: z.number() });
/** A resource as the sandbox returns it. */
const resourceSchema = z.looseObject({
  id: z.number(),
  type: z.string(),
  attributes: z.record(z.string(), z.unknown()),
  relationships: z
    .record(z.string(), z.looseObject({ data: z.union([linkage, z.array(linkage), z.null()]) }).nullable())
    .optional(),
});
export type StateResource = z.infer<typeof resourceSchema>;

/** An entry of a list: a resource, its included resources and its items. */
const entrySchema = z.object({
  resource: resourceSchema,
  included: z.array(resourceSchema).default([]),
  items: z.array(resourceSchema).default([]),
  /** False if no list shows it. */
  visible: z.boolean().default(true),
  /** The instants that timestamps without a zone mean. */
  instants: z.record(z.string(), z.string().nullable()).default({}),
});
export type StateEntry = z.infer<typeof entrySchema>;

/** The answer of `/_sandbox/state` (docs/sandbox.md, Controls): the entries of each client and requested list. */
export const stateSchema = z
  .object({ clients: z.array(z.object({ client: z.string() }).catchall(z.unknown())) })
  .transform(({ clients }) =>
    clients.map(({ client, ...lists }) => ({ client, lists: z.record(z.string(), z.array(entrySchema)).parse(lists) })),
  );
/** The lists of one client. */
export type ClientState = z.infer<typeof stateSchema>[number];
