import { z } from 'zod';
import {
  type Operation,
  type OperationName,
  type Operations,
  operations,
  takenMembers,
} from './operations.ts';
import { optionalMembers } from './optional-members.ts';

type SwitchName = Exclude<keyof Operation, 'method' | 'path' | 'documented' | 'enabled'>;

/** A switch of an entry in `WAREHOUSE_OPERATIONS_FILE`, and the operations that use it. */
interface Switch<N extends SwitchName> {
  readonly schema: z.ZodType<NonNullable<Operation[N]>>;
  readonly operations: readonly OperationName[];
}

const countries = z.array(
  z.string().regex(/^[A-Z]{2}$/, 'must be a country code of two letters, such as NL'),
);

/** All switches. docs/assumptions.md says what each is for. */
const switches: { readonly [N in SwitchName]: Switch<N> } = {
  included: {
    schema: z.enum(['inside', 'top']),
    operations: [
      'v3.orders.create',
      'v3.orders.update',
      'v3.returnMerchandiseAuthorizations.create',
      'v3.returnMerchandiseAuthorizations.replace',
      'v3.inboundPackingSlips.create',
    ],
  },
  billingAddress: { schema: z.enum(['copy', 'omit']), operations: ['v3.orders.create'] },
  repeatable: { schema: z.boolean(), operations: ['v2.returnLabel.get'] },
  takes: { schema: z.array(z.enum(takenMembers)), operations: ['v3.orders.update'] },
  sendsRelationships: { schema: z.boolean(), operations: ['v3.orders.update'] },
  optional: {
    schema: z.array(z.string()),
    operations: Object.keys(optionalMembers) as OperationName[],
  },
  postcodeCountries: { schema: countries, operations: ['v3.orders.create'] },
  houseNumberCountries: { schema: countries, operations: ['v3.orders.create'] },
  contentMember: {
    schema: z.string().min(1, 'must not be empty'),
    operations: ['v3.orderAttachments.create'],
  },
  attributes: { schema: z.record(z.string(), z.unknown()), operations: ['v3.orderItems.cancel'] },
  pageSize: { schema: z.boolean(), operations: ['v3.returnItems.list', 'v3.inbounds.list'] },
};

/** Schema of an entry in `WAREHOUSE_OPERATIONS_FILE`. */
export const entrySchema = z.strictObject({
  method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']),
  path: z.string().regex(/^\/[^?#]*$/, 'must begin with / and must not contain a query'),
  documented: z.boolean().optional(),
  ...(Object.fromEntries(
    Object.entries(switches).map(([name, { schema }]) => [name, schema.optional()]),
  ) as {
    readonly [N in SwitchName]: z.ZodOptional<Switch<N>['schema']>;
  }),
});

const switchNames = Object.keys(switches) as SwitchName[];

/**
 * Returns the switches that `WAREHOUSE_OPERATIONS_FILE` has set, such as `optional of
 * v3.orders.create`.
 */
export const listSetSwitches = (inUse: Operations): string[] =>
  (Object.keys(inUse) as OperationName[]).flatMap((operation) => {
    const builtIn: Operation = operations[operation];

    const isSet = (name: SwitchName) =>
      inUse[operation][name] !== undefined && inUse[operation][name] !== builtIn[name];
    return switchNames.filter(isSet).map((name) => `${name} of ${operation}`);
  });

/**
 * Returns the problems of an operation's switches: they belong to other operations, or name members
 * they cannot.
 */
export function findSwitchProblems(operation: OperationName, entry: Partial<Operation>): string[] {
  const problems = switchNames
    .filter((name) => entry[name] !== undefined && !switches[name].operations.includes(operation))
    .map((name) => `${name} belongs to ${switches[name].operations.join(', ')} only`);

  const possible: readonly string[] =
    (optionalMembers as Partial<Record<OperationName, readonly string[]>>)[operation] ?? [];
  const unknown =
    possible.length === 0
      ? []
      : (entry.optional ?? []).filter((member) => !possible.includes(member));

  if (unknown.length > 0)
    problems.push(
      `optional: ${unknown.join(', ')} cannot be optional; these can: ${possible.join(', ')}`,
    );

  return problems;
}
