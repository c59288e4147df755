import { z } from 'zod';
import { isObject } from '../core/json.ts';
import type { ChosenLists } from './store/service-lists.ts';

/**
 * What happens if an order or a slip names an unknown product: the product is created, or the
 * request is refused.
 */
const unknownProductRules = ['refuse', 'accept'] as const;
export type UnknownProducts = (typeof unknownProductRules)[number];
/** The shapes of v3 answers. */
export const dialects = ['plain', 'rich'] as const;
export type Dialect = (typeof dialects)[number];
/** Default for the orders per day of the robot's shop. */
export const defaultOrdersPerDay = 68;

/** The options that a sandbox starts with. A state file keeps them. */
export interface WorldOptions {
  readonly clients: readonly string[];
  readonly seed: number;
  /** Virtual seconds per real second. */
  readonly speed: number;
  /** Virtual time at the start, in milliseconds since 1970. */
  readonly startMs: number;
  /** Time zone of the warehouses. */
  readonly zone: string;
  /** Orders per day that the robot's shop takes for each client. */
  readonly ordersPerDay: number;
  /**
   * Whether the robot changes shipments after SHIPPED, and shows some only when they are SHIPPED.
   * Polls miss both.
   */
  readonly lateChanges?: boolean | undefined;
  /** Default of the switch `unknownProducts`: `refuse` if absent. */
  readonly unknownProducts?: UnknownProducts | undefined;
  /** The service lists that replace built-in ones, for all clients and for each. */
  readonly lists?: ChosenLists | undefined;
}

/**
 * How strict a sandbox is. This is chosen at each start: a state file does not keep it, and a reset
 * does not change it.
 */
export interface Strictness {
  /**
   * Whether only requests that match docs/interface.md exactly are accepted, rather than what
   * similar services accept.
   */
  readonly strict?: boolean;
  /** The dialect at the start, after a reset, and for switches that name none. */
  readonly dialect?: Dialect;
}

/** What a running sandbox can be switched to, where docs/interface.md leaves something open. */
const switchesSchema = z.strictObject({
  /**
   * What `page[cursor]` means: the last id, the number of rows before the page, or a number without
   * meaning.
   */
  cursor: z.enum(['id', 'offset', 'opaque']).default('id'),
  /** The form of `links.next`: an object with `href`, a URL, or a URL without its origin. */
  links: z.enum(['object', 'string', 'relative']).default('object'),
  /** The shapes of v3 answers. */
  dialect: z.enum(dialects).default('plain'),
  /** The position of `included`: inside each resource, or at the top of the document. */
  included: z.enum(['inside', 'top']).default('inside'),
  /** Whether a full last page has a next link, which leads to an empty page. */
  emptyLastPage: z.boolean().default(false),
  tokenSeconds: z.int().positive().default(1_200),
  unknownProducts: z.enum(unknownProductRules),
  /**
   * Whether v3 accepts an order whose number another order has. Tests thus notice what was sent
   * twice.
   */
  repeatedNumbers: z.boolean().default(false),
  /** Whether an update may change addresses, pick-up point, shipping method and order type. */
  changeableRelationships: z.boolean().default(false),
  /**
   * Whether a list of texts in a filter is percent-decoded before it is split, so that no value can
   * hold a comma.
   */
  decodesBeforeSplit: z.boolean().default(false),
  /** What an update does to addresses, pick-up point and shipping method that it omits. */
  omittedRelationships: z.enum(['keep', 'erase']).default('keep'),
});
export type Switches = z.infer<typeof switchesSchema>;

/** Reads switches. Those that are left out have their defaults. */
export function parseSwitches(
  given: unknown,
  { unknownProducts = 'refuse' }: WorldOptions,
  dialect: Dialect = 'plain',
): Switches {
  return switchesSchema.parse(isObject(given) ? { unknownProducts, dialect, ...given } : given);
}
