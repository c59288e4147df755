import { isObject } from '../core/json.ts';
import { type Switches, switchesSchema } from './paging.ts';
import type { Dialect } from './resources/dialect.ts';
import type { ChosenSettings } from './settings-file.ts';
import type { UnknownProducts } from './store/simulation.ts';

/** The options that a sandbox starts with. */
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
   * Whether the robot also does what polls cannot notice: it changes shipments after SHIPPED, and makes some visible
   * only when they are SHIPPED.
   */
  readonly lateChanges?: boolean | undefined;
  /** Default of the switch `unknownProducts`: `refuse` if absent. */
  readonly unknownProducts?: UnknownProducts | undefined;
  /** The settings lists that replace built-in ones, for all clients and for each. */
  readonly settings?: ChosenSettings | undefined;
}

/**
 * Reads switches. Those that are left out have their defaults.
 * @param dialect the default dialect
 * @throws ZodError if a switch is unknown or has a wrong value
 */
export function parseSwitches(
  given: unknown,
  { unknownProducts = 'refuse' }: WorldOptions,
  dialect: Dialect = 'plain',
): Switches {
  return switchesSchema.parse(isObject(given) ? { unknownProducts, dialect, ...given } : given);
}
