import { toClientHold } from '../../core/client-hold.ts';
import { describeError, WarehouseError } from '../../core/errors.ts';
import { QuarantineShareError } from '../reading/decode.ts';
import { type PullContext, warn } from '../run/pull-context.ts';

/**
 * Runs the passes of one poll. If a page cannot be read, only its pass fails, because the other passes read other
 * pages. The poll then fails at its end with the first error. An error of the whole client, the database or the lease
 * ends the poll at once.
 */
export class PassRunner {
  readonly #context: PullContext;
  readonly #failures: unknown[] = [];

  constructor(context: PullContext) {
    this.#context = context;
  }

  /** Runs a pass. Returns its result, or undefined if it failed. */
  async run<T>(pass: () => Promise<T>): Promise<T | undefined> {
    try {
      return await pass();
    } catch (error) {
      if (!isErrorOfOnePass(error)) throw error;
      this.#failures.push(error);
      return undefined;
    }
  }

  /** Ends the poll. Throws the first error of a pass; further errors become warnings of the run. */
  end(): void {
    const [first, ...others] = this.#failures;
    for (const other of others) warn(this.#context, describeError(other));
    if (first !== undefined) throw first;
  }
}

/** Returns true if the error concerns the page that was read, and not the whole client, database or lease. */
export const isErrorOfOnePass = (error: unknown) =>
  error instanceof QuarantineShareError || (error instanceof WarehouseError && toClientHold(error) === null);
