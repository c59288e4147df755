import { CodedError } from '../../core/errors.ts';

/** A request that cannot be carried out. The message says why, and is shown to the operator. */
export class AdminError extends CodedError {
  readonly status: 400 | 404 | 409;
  constructor(status: 400 | 404 | 409, message: string) {
    super('admin_refused', message);
    this.status = status;
  }
}
