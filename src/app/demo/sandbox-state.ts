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

/** An entry of a list: a resource with what belongs to it. */
const entrySchema = z.object({
  resource: resourceSchema,
  included: z.array(resourceSchema).default([]),
  items: z.array(resourceSchema).default([]),
  /** False if no list shows it. */
  visible: z.boolean().default(true),
  /** Times without a zone, as the instants they stand for. */
  instants: z.record(z.string(), z.string().nullable()).default({}),
});
export type StateEntry = z.infer<typeof entrySchema>;

/** What `/_sandbox/state` answers for the lists that were asked for (docs/sandbox.md, Controls): each client's entries by list. */
export const stateSchema = z
  .object({ clients: z.array(z.object({ client: z.string() }).catchall(z.unknown())) })
  .transform(({ clients }) =>
    clients.map(({ client, ...lists }) => ({ client, lists: z.record(z.string(), z.array(entrySchema)).parse(lists) })),
  );
/** One client's part. */
export type ClientState = z.infer<typeof stateSchema>[number];
