import { holdAfter } from '../core/client-hold.ts';
import { describeError, WarehouseError } from '../core/errors.ts';
import { QuarantineShareError } from './decode.ts';
import { type PullContext, warn } from './pull-context.ts';

/**
 * The passes of one poll. A page that cannot be read fails its own pass; the others are run all the same, as what they read
 * stands on other pages, and the poll fails at its end with the first error. What concerns the whole client, its database
 * or its lease ends the poll at once.
 */
export class PassesInTurn {
  readonly #context: PullContext;
  readonly #failures: unknown[] = [];

  constructor(context: PullContext) {
    this.#context = context;
  }

  /** Runs a pass. @returns what it returned; undefined where it failed */
  async run<T>(pass: () => Promise<T>): Promise<T | undefined> {
    try {
      return await pass();
    } catch (error) {
      if (!concernsOnePass(error)) throw error;
      this.#failures.push(error);
      return undefined;
    }
  }

  /** Ends the poll. @throws the first error of a pass; further ones are warnings */
  end(): void {
    const [first, ...others] = this.#failures;
    for (const other of others) warn(this.#context, describeError(other));
    if (first !== undefined) throw first;
  }
}

const concernsOnePass = (error: unknown) =>
  error instanceof QuarantineShareError || (error instanceof WarehouseError && holdAfter(error) === null);
