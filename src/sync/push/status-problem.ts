import { describeError, WarehouseError } from '../../core/errors.ts';
import { isServiceAnswer } from '../../core/push/push-outcome.ts';
import type { Warehouse } from '../../warehouse/client.ts';

/** Milliseconds after which a service that has not answered counts as not reachable. */
const statusWithinMs = 10_000;

/**
 * Returns why the service is not reachable; null if it answers, with whatever content.
 * @throws the reason of `signal` if it was aborted
 */
export async function findStatusProblem(warehouse: Warehouse, signal: AbortSignal): Promise<string | null> {
  const deadline = AbortSignal.timeout(statusWithinMs);
  try {
    await warehouse.checkStatus(AbortSignal.any([signal, deadline]));
    return null;
  } catch (error) {
    signal.throwIfAborted();
    if (deadline.aborted) return `common.status.get: no answer within ${statusWithinMs / 1_000} s`;
    // An answer in any form shows that the service is reachable.
    const isAnswer = error instanceof WarehouseError && ((error.status ?? 500) < 500 || error.code === 'undecodable');
    return isAnswer || isServiceAnswer(error) ? null : describeError(error);
  }
}
