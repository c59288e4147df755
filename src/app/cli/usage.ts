import { CodedError } from '../../core/errors.ts';

/** An error in the words or options of a command. The process exits with 2. */
export class UsageError extends CodedError {
  constructor(message: string) {
    super('usage', message);
  }
}
