import { CodedError } from '../../core/errors.ts';

/** What was asked for cannot be done; the message says why. */
export class AdminError extends CodedError {
  readonly status: 400 | 404 | 409;
  constructor(status: 400 | 404 | 409, message: string) {
    super('admin_refused', message);
    this.status = status;
  }
}
