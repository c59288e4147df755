import { describeError, WarehouseError } from '../../core/errors.ts';
import { isServiceAnswer } from '../../core/push-outcome.ts';
import type { Warehouse } from '../../warehouse/client.ts';

/** However slow a service is, whether it is there is known after this. */
const statusWithinMs = 10_000;

/** Why the service is not there; null where it answers, whatever it says. @throws where the signal ended it */
export async function statusProblem(warehouse: Warehouse, signal: AbortSignal): Promise<string | null> {
  const deadline = AbortSignal.timeout(statusWithinMs);
  try {
    await warehouse.status(AbortSignal.any([signal, deadline]));
    return null;
  } catch (error) {
    signal.throwIfAborted();
    if (deadline.aborted) return `common.status.get: no answer within ${statusWithinMs / 1_000} s`;
    // Whatever it says, and in whatever form, it is there.
    const isAnswer = error instanceof WarehouseError && ((error.status ?? 500) < 500 || error.code === 'undecodable');
    return isAnswer || isServiceAnswer(error) ? null : describeError(error);
  }
}
