import { CodedError } from '../../core/errors.ts';

/** A command was called in a way it does not know; the process exits with 2. */
export class UsageError extends CodedError {
  constructor(message: string) {
    super('usage', message);
  }
}
